"""Which known categories a novel one is near: names for people, who have nothing but a number for it."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

NEAR = 0.8
"""The share of known categories that have to be no nearer to their own nearest known one. Set on CIFAR-100's labelled
classes, in turn hidden, so that four of five first names are of the same superclass (benchmarks/near). Not for features
that labels have trained: there the known categories lie apart, and all else is near to one."""
MOST = 3
FEWEST = 3
"""Known categories without which there is no saying how near they are to each other: of two both are as near."""
CHUNK = 8192


@torch.no_grad()
def near_known(
    features: Tensor, labels: Tensor, assignments: np.ndarray, n_known: int, n_novel: int, bar: float = NEAR
) -> list[list[int]]:
    """For each novel category the known ones that it is near, nearest first, up to ``MOST``; often none.

    ``features`` [n_train, D] are of labelled images, then unlabelled ones, ``labels`` [n_labelled] and ``assignments``
    [n_unlabelled] their categories, known ones counted first. A category is where the unit mean of its unit features
    is, and nearness a cosine. A known category is near if a share ``bar`` of the known ones are no nearer to the known
    category nearest to them: how near that is differs between networks and collections.
    """
    first, n = len(labels), n_known + n_novel
    groups = torch.cat([labels, torch.from_numpy(assignments)]).to(features.device)
    groups[first:] = torch.where(groups[first:] < n_known, n, groups[first:])  # a known category is its labelled images
    centres = features.new_zeros(n + 1, features.shape[1], dtype=torch.float32)
    for rows in torch.arange(len(features), device=features.device).split(CHUNK):
        centres.index_add_(0, groups[rows], F.normalize(features[rows].float()))
    cosine, sizes = F.normalize(centres[:n]) @ F.normalize(centres[:n]).T, torch.bincount(groups, minlength=n + 1)[:n]
    known = torch.nonzero(sizes[:n_known]).flatten()
    if len(known) < FEWEST:
        return [[] for _ in range(n_novel)]
    between = cosine[known][:, known].fill_diagonal_(-torch.inf).max(1).values
    found: list[list[int]] = []
    for row, size in zip(cosine[n_known:][:, known], sizes[n_known:].tolist(), strict=True):
        share = (between[None] <= row[:, None]).double().mean(1)
        order = [i for i in row.argsort(descending=True, stable=True).tolist() if size and share[i] >= bar]
        found.append([int(known[i]) for i in order[:MOST]])
    return found
