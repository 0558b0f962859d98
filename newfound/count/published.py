"""Three published ways to the number of categories, for comparison with our own."""

from __future__ import annotations

import math

import numpy as np
import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

from newfound.cluster.fixed import kmeans_fixed
from newfound.cluster.kmeans import kmeans
from newfound.cluster.uneven import silhouette
from newfound.count.owned import candidates
from newfound.count.sample import FOLDS, Sample, unit
from newfound.count.tree import Tree, mean_shift
from newfound.evaluate.accuracy import clustering_accuracy

STARTS = 3
FEWEST_SHARE = 0.01
"""A cluster with a smaller share of the largest one's images is not counted (DTC)."""
ROUNDS = 2
"""Of the mean shift."""


def by_probes(sample: Sample, most: int, seed: int) -> int | None:
    """DTC's number (Han et al. 2019): semi-supervised k-means with some known categories hidden among the pile.

    For each number the accuracy on the hidden categories, and the silhouette of hidden and novel images together, are
    taken; the estimate lies halfway between the best by the one and the best by the other, rounded up, less clusters
    that are next to empty. The mean over two fifths of the categories hidden at a time is taken where DTC's own program
    draws them once. None with fewer than two known categories.
    """
    n, known = len(sample.labels), sample.n_known
    if known < 2:
        return None
    features, rng = unit(sample.features), np.random.default_rng([seed, 0xD7C])
    found = []
    for _ in range(FOLDS):
        hidden = np.isin(sample.labels.numpy(), rng.permutation(known)[: max(1, min(known - 1, round(0.4 * known)))])
        anchors, own = np.flatnonzero(~hidden), np.flatnonzero(hidden)
        rows = features[np.concatenate([anchors, own, np.arange(n, len(features))])]
        labels = torch.unique(sample.labels[anchors], return_inverse=True)[1]
        found.append(_probed(rows, labels, sample.labels[own].numpy(), most, seed))
    return max(1, math.ceil(float(np.mean(found))))


def _probed(features: Tensor, labels: Tensor, hidden: np.ndarray, most: int, seed: int) -> int:
    anchors, probes = int(labels.max()) + 1, len(np.unique(hidden))
    free = features[len(labels) :]
    numbers, clusterings, right, valid = candidates(most), [], [], []
    for number in numbers:
        k = min(anchors + probes + int(number), anchors + len(free))
        cluster = kmeans_fixed(features, k, labels, starts=STARTS, seed=seed).labels[len(labels) :]
        clusterings.append(cluster.numpy())
        right.append(clustering_accuracy(cluster[: len(hidden)].numpy(), hidden))
        valid.append(silhouette(free, cluster, k))
    best = [int(np.flatnonzero(np.array(scores) == max(scores))[-1]) for scores in (right, valid)]
    middle = math.ceil((numbers[best[0]] + numbers[best[1]]) / 2)
    sizes = np.bincount(clusterings[int(np.abs(numbers - middle).argmin())])
    empty = int((sizes[sizes > 0] <= FEWEST_SHARE * sizes.max()).sum())
    return max(1, middle - empty)


def by_accuracy(sample: Sample, most: int, seed: int) -> int:
    """GCD's number (Vaze et al. 2022): of known and novel categories together, that by which k-means over all images
    puts the labelled ones into their categories best, searched by Brent's bounded method, less the known ones."""
    features, n = unit(sample.features), len(sample.labels)
    labels, known = sample.labels.numpy(), sample.n_known
    seen: dict[int, float] = {}

    def wrong(k: float) -> float:
        number = int(k)
        if number not in seen:
            cluster = kmeans(features, number, starts=STARTS, seed=seed).labels[:n]
            seen[number] = clustering_accuracy(cluster.numpy(), labels)
        return -seen[number]

    minimize_scalar(wrong, bounds=(known + 1, known + most + 1), method="bounded", options={"xatol": 0.5})
    return max(seen, key=lambda number: (seen[number], number)) - known


def by_shift(sample: Sample, most: int, seed: int) -> int:
    """CMS's number (Choi et al. 2024): features are drawn to their neighbours, joined by Ward's rule, and the tree is
    cut where the labelled images are in their categories best; less the known categories. Of equals the largest."""
    del seed  # nothing is drawn
    n, known = len(sample.labels), sample.n_known
    tree, labels = Tree(mean_shift(unit(sample.features), ROUNDS)), sample.labels.numpy()
    right = [clustering_accuracy(tree.cut(known + number)[:n], labels) for number in range(1, most + 1)]
    return int(np.flatnonzero(np.array(right) == max(right))[-1]) + 1
