"""k-means in which the known categories are clusters and their labelled images members of them for good."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from newfound.cluster import Clustering, by_size, check, full_precision, one_hot, working
from newfound.cluster.kmeans import SAME, lloyd, own_distances, plus_plus

FINER = 3
"""New clusters for each novel category in ``finer``."""

NUMBERED = "np.unique(labels, return_inverse=True)[1] numbers labels so"


@torch.no_grad()
def kmeans_fixed(
    features: Tensor | np.ndarray,
    k: int,
    fixed: Tensor | np.ndarray,
    *,
    starts: int = 20,
    iterations: int = 300,
    tolerance: float = 1e-4,
    seed: int = 0,
) -> Clustering:
    """The best of several clusterings of features [N, D] into k clusters, the first of which are the known categories.

    The first n features keep their labels ``fixed`` [n], counted from 0 without a gap; every other feature may join a
    known category or one of the k - n_known new clusters (semi-supervised k-means: Han et al. 2019, Vaze et al. 2022).
    A known category begins at the mean of its labelled features, a new cluster where k-means++ puts it, among the
    features without a label and away from what is known. Known categories keep their numbers; new clusters follow,
    the largest first. The inertia is of all features. ``kmeans`` says what the other arguments are.
    """
    features = torch.as_tensor(features)
    fixed = _numbers(fixed).to(features.device)
    check(features, k)
    n, n_known = len(fixed), _count_known(fixed, k, len(features))
    with full_precision(features.device):
        centred = working(features)
        centred = centred - centred.mean(dim=0)
        known, free = centred[:n], centred[n:]
        members = one_hot(fixed[:, None], k, centred.dtype)
        sums, counts = members.T @ known, members.sum(dim=0)
        begin = sums[:n_known] / counts[:n_known, None]
        trials = 2 + int(math.log(k))
        generator = torch.Generator().manual_seed(seed)
        draws = torch.rand(starts, k - n_known, trials, generator=generator, dtype=torch.float64)
        draws = draws.to(features.device)[: None if k > n_known else 1]  # without a new cluster all starts are one
        centres = torch.cat([begin.expand(len(draws), -1, -1), plus_plus(free, draws, begin)], dim=1)
        labels, centres = lloyd(free, centres, iterations, tolerance, (sums, counts))
        labels = torch.cat([fixed.expand(len(draws), -1), labels], dim=1)
        inertia = own_distances(centred, centres, labels).sum(dim=1, dtype=torch.float64)
        best = labels[(inertia <= inertia.min() * (1 + SAME)).int().argmax()]
        new = best >= n_known
        best[new] = n_known + by_size(best[new] - n_known, k - n_known)
        return Clustering.numbered(features, best, k)


def finer(n_novel: int, n_unlabelled: int) -> int:
    """How many new clusters there are beside the known ones where the question is how many images join these. With one
    for each novel category, one that is cut in two has a half that passes for known (docs/log/methods.md)."""
    return max(1, min(FINER * n_novel, n_unlabelled // 2))


def _numbers(fixed: Tensor | np.ndarray) -> Tensor:
    """The labels [n] as a tensor int64; ValueError where they are no whole numbers."""
    given = fixed if isinstance(fixed, Tensor) else np.asarray(fixed)
    whole = not given.is_floating_point() if isinstance(given, Tensor) else given.dtype.kind in "iu"
    if not whole or given.ndim != 1:
        found = f"{given.dtype} of shape {tuple(given.shape)}"
        raise ValueError(f"the labels of the first features are whole numbers [n], got {found}; {NUMBERED}")
    return torch.as_tensor(given).long()


def _count_known(fixed: Tensor, k: int, n_features: int) -> int:
    """How many categories the labels [n] have; ValueError unless k clusters can hold them and all features."""
    if not 0 < len(fixed) < n_features:
        raise ValueError(f"expected labels of some of {n_features} features, the first ones; got {len(fixed)} labels")
    categories = torch.unique(fixed)
    n_known = len(categories)
    if not torch.equal(categories, torch.arange(n_known, device=fixed.device)):
        raise ValueError(f"the labels of known categories have to be counted from 0, without a gap; {NUMBERED}")
    most = n_known + n_features - len(fixed)
    if not n_known <= k <= most:
        raise ValueError(
            f"cannot make {k} clusters of {n_known} known categories and {n_features - len(fixed)} features: "
            f"choose between {n_known} and {most}"
        )
    return n_known
