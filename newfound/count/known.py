"""How much of the pile lies within known categories, and what lies outside."""

from __future__ import annotations

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from newfound.cluster.fixed import kmeans_fixed
from newfound.count.sample import FOLDS, Sample, whitened

INSIDE = 0.9
"""The share of held-back images of known categories that lie within them, by definition."""
ERRORS = 2.0
"""Standard errors that the share has to be above 0."""
STARTS = 3
"""Of the clustering that parts a pile into known and new."""


def outside_known(sample: Sample, new: int, seed: int) -> Sample:
    """The sample without the images of the pile that join known categories, where these are clusters to which their
    labelled images belong and there are so many ``new`` clusters beside them."""
    n, known = len(sample.labels), sample.n_known
    features = whitened(sample.features, sample.labels)
    new = min(max(new, 1), len(sample.pile))
    joined = kmeans_fixed(features, known + new, sample.labels, starts=STARTS, seed=seed).labels[n:]
    rows = torch.cat([torch.arange(n), n + torch.nonzero(joined >= known)[:, 0]])
    return Sample(sample.features[rows], sample.labels)


def within_known(sample: Sample, seed: int) -> float | None:
    """The share of the pile that is of known categories, by where its images lie; None with fewer than two known
    categories or fewer than two images of each.

    An image lies within the known categories if its cosine with the nearest one's mean is as large as that of nine
    tenths of held-back known images. Known categories that are left out, by turns, say how many images of other
    categories do so too; a share that may come from how these differ (two standard errors) is taken as 0.
    """
    labels, known = sample.labels.numpy(), sample.n_known
    if known < 2 or np.bincount(labels).min() < 2:
        return None
    rng = np.random.default_rng([seed, 0x1235])
    order = rng.permutation(known)
    place = rng.permutation(len(labels))
    place = place[np.argsort(labels[place], kind="stable")]
    held_back = np.zeros(len(labels), dtype=bool)
    held_back[place[np.arange(len(place)) % 2 == 1]] = True
    strangers = []
    parts = min(FOLDS, known)
    for part in range(parts):
        gone = np.isin(labels, order[part::parts])
        nearness, held = _nearness(sample, np.flatnonzero(~gone & ~held_back), np.flatnonzero(~gone & held_back))
        bar = held.quantile(1 - INSIDE)
        for category in np.unique(labels[gone]):
            own = torch.from_numpy(np.flatnonzero(labels == category))
            strangers.append(float((nearness[own] >= bar).float().mean()))
    novel, doubt = float(np.mean(strangers)), ERRORS * float(np.std(strangers)) * math.sqrt(2 / known)
    nearness, held = _nearness(sample, np.flatnonzero(~held_back), np.flatnonzero(held_back))
    pile = nearness[len(labels) :]
    found = float((pile >= held.quantile(1 - INSIDE)).float().mean())
    share = (found - novel) / (INSIDE - novel) if found > novel + doubt and novel < INSIDE else 0.0
    return min(1.0, share)


def _nearness(sample: Sample, anchors: np.ndarray, held_back: np.ndarray) -> tuple[Tensor, Tensor]:
    """The cosine of every image [n + m] with the nearest mean of the anchors' categories, in features whitened by the
    anchors; and that of the images held back."""
    rest = np.setdiff1d(np.arange(len(sample.features)), anchors)
    labels = torch.unique(sample.labels[anchors], return_inverse=True)[1]
    order = torch.from_numpy(np.concatenate([anchors, rest]))
    white = whitened(sample.features[order], labels)
    features = torch.empty_like(white)
    features[order] = white
    members = F.one_hot(labels).float()
    nearness = (features @ F.normalize(members.T @ features[torch.from_numpy(anchors)]).T).amax(1)
    return nearness, nearness[torch.from_numpy(held_back)]
