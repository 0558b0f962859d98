"""What the estimates look at: features of some images, whitened by some of the known categories."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from newfound.cluster.pca import principal_components
from newfound.cluster.whitening import whitening

MOST_PILE, MOST_KNOWN = 2000, 1000
"""Images of the pile, and of the known categories, that are looked at: what a tree of two thousand needs, a second."""
COMPONENTS = 256
"""Principal components that are kept: whitening takes time with the cube of their number."""
SHRINKAGE, DIMENSION = 0.5, 64
"""Of the whitening: the defaults of apl-features."""
FOLDS = 3
"""Parts of the known categories that are hidden in the pile, one after another."""


@dataclass(frozen=True)
class Sample:
    """Features [n + m, D] of n labelled images and, after them, m of the pile; labels [n], from 0 without a gap."""

    features: Tensor
    labels: Tensor

    @property
    def pile(self) -> Tensor:
        return self.features[len(self.labels) :]

    @property
    def n_known(self) -> int:
        return int(self.labels.max()) + 1

    def thinned(self, each: int, n_pile: int, rng: np.random.Generator) -> Sample:
        """At most ``each`` images of a known category and ``n_pile`` of the pile, drawn at random."""
        rows = _draw(self.labels, len(self.features), each, n_pile, rng)
        return Sample(self.features[rows], self.labels[rows[rows < len(self.labels)]])

    def of(self, known: np.ndarray, pile: np.ndarray) -> Sample:
        """The images of the categories ``known``, renumbered in that order, and for a pile those of the categories
        ``pile``: a task whose answer is len(pile)."""
        labels = self.labels.numpy()
        rows = [np.flatnonzero(labels == c) for c in known]
        numbers = np.repeat(np.arange(len(known)), [len(some) for some in rows])
        hidden = np.flatnonzero(np.isin(labels, pile))
        return Sample(self.features[np.concatenate([*rows, hidden])], torch.from_numpy(numbers))

    def mixed(self, rng: np.random.Generator) -> Sample:
        """The same with a third of the labelled images of each category in the pile."""
        labels = self.labels.numpy()
        order = rng.permutation(len(labels))
        order = order[np.argsort(labels[order], kind="stable")]
        first = np.searchsorted(labels[order], labels[order])
        moved = np.zeros(len(labels), dtype=bool)
        moved[order] = (np.arange(len(labels)) - first) % 3 == 2
        stay, go = np.flatnonzero(~moved), np.flatnonzero(moved)
        rows = np.concatenate([stay, go, np.arange(len(labels), len(self.features))])
        return Sample(self.features[rows], self.labels[stay])


@dataclass(frozen=True)
class Fold:
    """Some known categories hidden in the pile. ``features`` [h + m, d] are whitened by the other known categories,
    the hidden images first; ``hidden`` [h] are their categories; ``anchors`` [a, d] and their ``labels`` [a] are the
    other known images."""

    features: Tensor
    hidden: np.ndarray
    anchors: Tensor
    labels: Tensor


def drawn_rows(labels: Tensor, n_images: int, seed: int) -> Tensor:
    """The rows of the images that the estimates look at, category by category and then the pile, of ``n_images`` of
    which the first have labels [n]: some that the seed draws, or all where they are few. Of rows that were drawn all
    would be drawn again, in this order."""
    each = max(2, MOST_KNOWN // (int(labels.max()) + 1))
    return _draw(labels.cpu(), n_images, each, MOST_PILE, np.random.default_rng([seed, 0xC047]))


def _draw(labels: Tensor, n_images: int, each: int, n_pile: int, rng: np.random.Generator) -> Tensor:
    """At most ``each`` row of a category, those of the first category first, and ``n_pile`` of the pile."""
    members = [torch.nonzero(labels == category)[:, 0] for category in range(int(labels.max()) + 1)]
    groups = [(rows, each) for rows in members] + [(torch.arange(len(labels), n_images), n_pile)]
    return torch.cat([rows[torch.from_numpy(np.sort(rng.permutation(len(rows))[:most]))] for rows, most in groups])


def limited(features: Tensor, labels: Tensor, seed: int) -> Sample:
    """So much of features [N, D], of which the first have labels [n], as the estimates look at: some images, and of
    the directions of their features the principal components."""
    rows = drawn_rows(labels, len(features), seed)
    some = features.detach().float().cpu()[rows]
    directions = F.normalize(some - some.mean(0))
    return Sample(
        principal_components(directions, min(COMPONENTS, directions.shape[1])), labels.cpu()[rows[rows < len(labels)]]
    )


def folds(sample: Sample, order: np.ndarray) -> Iterator[Fold]:
    """The known categories hidden in the pile by turns, in parts of the ``order`` [n_known]. A single known category
    is hidden too: then nothing whitens."""
    n, parts = len(sample.labels), min(FOLDS, sample.n_known)
    for part in range(parts):
        hidden = np.isin(sample.labels.numpy(), order[part::parts])
        anchors, own = np.flatnonzero(~hidden), np.flatnonzero(hidden)
        rows = np.concatenate([anchors, own, np.arange(n, len(sample.features))])
        labels = torch.unique(sample.labels[anchors], return_inverse=True)[1]
        features = whitened(sample.features[rows], labels)
        yield Fold(features[len(anchors) :], sample.labels[own].numpy(), features[: len(anchors)], labels)


def whitened(features: Tensor, labels: Tensor) -> Tensor:
    """Unit features [N, d] of features [N, D], of which the first have labels [n], as apl-features begins with."""
    directions = F.normalize(features - features.mean(0))
    directions = directions - directions.mean(0)
    if not len(labels):
        return F.normalize(directions)
    return F.normalize(directions @ whitening(directions, labels, shrinkage=SHRINKAGE, dimension=DIMENSION).T)


def unit(features: Tensor) -> Tensor:
    """Unit features [N, d] of features [N, D]: their first principal components, no label used."""
    directions = F.normalize(features - features.mean(0))
    return F.normalize(principal_components(directions, min(DIMENSION, directions.shape[1])))
