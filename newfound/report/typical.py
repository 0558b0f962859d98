"""Which images of a category are typical of it, which are doubtful, and which novel categories are nearest to it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from newfound.data.collection import Collection

NEAREST = 2
"""Novel categories that are told of each category; trust/near.py tells the known ones."""
CHUNK = 8192
SURE = 0.99
"""Confidence above which an image is not called doubtful: it is shown as over 99 %."""


def told_of(collection: Collection, assignments: np.ndarray) -> np.ndarray:
    """The categories that a person is told of, rising: all novel ones, and known ones that images [n_unlabelled] were
    given."""
    candidates = collection.candidates
    return candidates[(candidates >= len(collection.classes)) | np.isin(candidates, assignments)]


@dataclass(frozen=True)
class Closeness:
    """How near unlabelled images and categories are to the centres of all categories.

    Categories are counted known ones first, then novel ones. ``own`` [n_unlabelled] is the cosine of an image with its
    own category's centre, ``other`` [n_unlabelled] the category next to it. ``nearest`` [C, NEAREST] are the novel
    categories whose centres are nearest, -1 where there are no more.
    """

    own: np.ndarray
    other: np.ndarray
    nearest: np.ndarray


@torch.no_grad()
def closeness(features: Tensor, labels: Tensor, assignments: np.ndarray, n_known: int, n_novel: int) -> Closeness:
    """From features [n_train, D] of labelled images, then unlabelled ones, their labels [n_labelled] and categories
    ``assignments`` [n_unlabelled]. A centre is the unit mean of unit features."""
    first, n = len(labels), n_known + n_novel
    found = torch.from_numpy(assignments).to(features.device)
    category = torch.cat([labels.to(features.device), found])
    centres, sizes = torch.zeros(n, features.shape[1], device=features.device), torch.bincount(category, minlength=n)
    for rows in torch.arange(len(features), device=features.device).split(CHUNK):
        centres.index_add_(0, category[rows], F.normalize(features[rows].float()))
    centres = F.normalize(centres)
    own, other = torch.empty(len(found)), torch.empty(len(found), dtype=torch.int64)
    for rows in torch.arange(len(found), device=features.device).split(CHUNK):
        cosine = F.normalize(features[first + rows].float()) @ centres.T
        here = found[rows][:, None]
        own[rows.cpu()] = cosine.gather(1, here).squeeze(1).cpu()
        cosine[:, sizes == 0] = -torch.inf
        other[rows.cpu()] = cosine.scatter(1, here, -torch.inf).argmax(1).cpu()
    between = centres @ centres.T
    between[:, sizes == 0] = -torch.inf
    between[:, :n_known] = -torch.inf
    between[sizes == 0] = -torch.inf
    between.fill_diagonal_(-torch.inf)
    cosine, nearest = between.topk(min(NEAREST, n), dim=1)
    nearest[cosine == -torch.inf] = -1
    return Closeness(own.numpy(), other.numpy(), nearest.cpu().numpy())


def gallery_size(n_shown: int) -> tuple[int, int]:
    """How many typical and how many doubtful images a category is shown with: fewer, the more categories there are."""
    each = max(2, min(20, 5000 // n_shown))
    doubtful = each * 2 // 5
    return each - doubtful, doubtful


def choose_gallery(
    assignments: np.ndarray, confidence: np.ndarray, typicality: np.ndarray, category: int, typical: int, doubtful: int
) -> tuple[np.ndarray, np.ndarray]:
    """Rows of the ``typical`` images of a category (nearest to its centre first), and of its ``doubtful`` ones (least
    sure first, none that is sure). No image is both; of a small category most are typical."""
    members = np.flatnonzero(assignments == category)
    by_centre = members[np.argsort(-typicality[members], kind="stable")]
    n_typical = min(typical, -(-len(members) * typical // (typical + doubtful)))
    rest = by_centre[n_typical:]
    rest = rest[confidence[rest] <= SURE]
    return by_centre[:n_typical], rest[np.argsort(confidence[rest], kind="stable")][:doubtful]
