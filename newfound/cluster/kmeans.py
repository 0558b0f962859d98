"""k-means with k-means++ seeding: all starts at once, on the device the features are on."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from newfound.cluster import Clustering, check, full_precision, one_hot, slices, working

SAME = 1e-6
"""Inertias that differ by less than this share are one result found twice; the first start that has it is taken."""


@torch.no_grad()
def kmeans(
    features: Tensor | np.ndarray,
    k: int,
    *,
    starts: int = 20,
    iterations: int = 300,
    tolerance: float = 1e-4,
    seed: int = 0,
) -> Clustering:
    """The best of several k-means clusterings of features [N, D] into k clusters.

    Every start is seeded by greedy k-means++ and iterated until its centres move, in all, by a squared distance of at
    most ``tolerance`` times the mean variance of a feature. A seed gives the same draws on every device. Clusters
    without a member remain only where the features hold fewer than k distinct values.
    """
    features = torch.as_tensor(features)
    check(features, k)
    with full_precision(features.device):
        # Around the mean, since distances by way of c² - 2 x·c lose digits where all features are far from 0.
        centred = working(features)
        centred = centred - centred.mean(dim=0)
        trials = 2 + int(math.log(k))
        generator = torch.Generator().manual_seed(seed)
        draws = torch.rand(starts, k, trials, generator=generator, dtype=torch.float64).to(features.device)
        labels, centres = lloyd(centred, plus_plus(centred, draws), iterations, tolerance)
        inertia = own_distances(centred, centres, labels).sum(dim=1, dtype=torch.float64)
        best = (inertia <= inertia.min() * (1 + SAME)).int().argmax()
        return Clustering.from_labels(features, labels[best], k)


def plus_plus(features: Tensor, draws: Tensor, given: Tensor | None = None) -> Tensor:
    """Initial centres [S, K, D] by k-means++ (Arthur and Vassilvitskii 2007) from draws [S, K, T] in 0 to 1.

    Each centre is one of the features [N, D], drawn with a probability that grows with the squared distance to the
    nearest centre so far; of T draws the one is kept that leaves the smallest sum of such distances. Centres [G, D]
    that are ``given`` count among those so far, and are not repeated in the result.
    """
    starts, k, trials = draws.shape
    n = len(features)
    norms = features.square().sum(dim=1)
    new = features[(draws[:, :1, 0] * n).long()].flatten(0, 1)
    centres = features.new_empty(starts, k, features.shape[1])
    closest = features.new_full((starts, n), math.inf)
    if given is not None:
        for rows in slices(n, len(given), features.device):
            closest[:, rows] = _distances(given[None], features[rows], norms[rows])[0].amin(dim=0)
    for i in range(k):
        if i > 0 or given is not None:
            candidates = features[_weighted_draw(closest, draws[:, i])]
            left = closest.new_zeros(starts, trials, dtype=torch.float64)
            for rows in slices(n, starts * trials, features.device):
                distances = _distances(candidates, features[rows], norms[rows])
                left += torch.minimum(distances, closest[:, None, rows]).sum(dim=2)
            new = candidates[torch.arange(starts, device=features.device), left.argmin(dim=1)]
        centres[:, i] = new
        for rows in slices(n, starts, features.device):
            distances = _distances(new[:, None], features[rows], norms[rows])[:, 0]
            closest[:, rows] = torch.minimum(distances, closest[:, rows])
    return centres


def _weighted_draw(weights: Tensor, draws: Tensor) -> Tensor:
    """Indices [S, T] into weights [S, N], drawn with a probability in proportion to them by draws [S, T] in 0 to 1."""
    # Running sums of whole numbers, since those of fractions depend on the order in which a device adds.
    largest = weights.amax(dim=1, keepdim=True)
    share = torch.where(largest > 0, weights / largest, torch.ones_like(weights))
    running = (share * 2**30).long().cumsum(dim=1)
    total = running[:, -1:]
    target = torch.minimum((draws * total).long(), total - 1)
    return torch.searchsorted(running, target, right=True)


def _distances(points: Tensor, features: Tensor, norms: Tensor) -> Tensor:
    """Squared distances [S, T, N] of points [S, T, D] from features [N, D], whose squared norms are given."""
    flat = points.flatten(0, 1)
    squared = torch.addmm(norms[None], flat, features.T, alpha=-2) + flat.square().sum(dim=1, keepdim=True)
    return squared.clamp_(min=0).unflatten(0, points.shape[:2])


def lloyd(
    features: Tensor,
    centres: Tensor,
    iterations: int,
    tolerance: float,
    fixed: tuple[Tensor, Tensor] | None = None,
) -> tuple[Tensor, Tensor]:
    """Labels [S, N] and centres [S, K, D] from S sets of initial centres [S, K, D], each iterated until it settles.

    A cluster that lost all its members takes the feature that is farthest from the centre of its cluster, and further
    ones take the next farthest. A set of centres that has settled is not touched again. ``fixed`` are the sums [K, D]
    and the numbers [K] of members that clusters have for good, beside the features.
    """
    centres = centres.clone()
    labels = torch.empty(len(centres), len(features), dtype=torch.int64, device=features.device)
    variance = features.var(dim=0, correction=0)
    settled, noise = tolerance * variance.mean(), torch.finfo(features.dtype).eps * variance.sum()
    active = torch.arange(len(centres), device=features.device)
    stuck = torch.zeros_like(active, dtype=torch.bool)
    for _ in range(iterations):
        before = centres[active]
        labels[active], sums, counts = _assign(features, before)
        if fixed is not None:
            sums, counts = sums + fixed[0], counts + fixed[1]
        empty = counts == 0
        after = torch.where(empty[..., None], before, sums / counts.clamp(min=1)[..., None])
        hollow = empty.any(dim=1)
        still = (after - before).square().sum(dim=(1, 2)) <= settled
        going, refill = torch.stack([~still | (hollow & ~stuck), hollow]).tolist()  # the iteration's only wait
        stuck = torch.zeros_like(stuck)
        if any(refill):
            holes = torch.tensor(refill).nonzero()[:, 0].to(features.device)
            after[holes], stuck[holes] = _refill(features, labels[active[holes]], after[holes], empty[holes], noise)
        centres[active] = after
        if not all(going):
            kept = torch.tensor(going).nonzero()[:, 0].to(features.device)
            active, stuck = active[kept], stuck[kept]
        if not len(active):
            break
    return labels, centres


def _assign(features: Tensor, centres: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Labels [S, N] of the nearest of centres [S, K, D], with the sums [S, K, D] and the numbers [S, K] of members."""
    starts, k, _ = centres.shape
    flat = centres.flatten(0, 1)
    norms = flat.square().sum(dim=1)
    labels = torch.empty(starts, len(features), dtype=torch.int64, device=features.device)
    sums, counts = torch.zeros_like(flat), torch.zeros_like(norms)
    for rows in slices(len(features), starts * k, features.device):
        # The squared norm of the feature is the same for all centres, so it is left out.
        relative = torch.addmm(norms[None], features[rows], flat.T, alpha=-2)
        nearest = relative.unflatten(1, (starts, k)).argmin(dim=2)
        members = one_hot(nearest, k, features.dtype)
        sums += members.T @ features[rows]
        counts += members.sum(dim=0)
        labels[:, rows] = nearest.T
    return labels, sums.view_as(centres), counts.view(starts, k)


def _refill(features: Tensor, labels: Tensor, centres: Tensor, empty: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Centres [S, K, D] with the empty ones [S, K] moved to the farthest features; and where none could be [S].

    A feature within rounding of its centre is never taken: then the cluster stays empty.
    """
    distances, features_by_distance = own_distances(features, centres, labels).sort(dim=1, descending=True, stable=True)
    turn = (empty.cumsum(dim=1) - 1).clamp(min=0)
    move = empty & (distances.gather(1, turn) > noise)
    taken = features[features_by_distance.gather(1, turn)]
    return torch.where(move[..., None], taken, centres), ~move.any(dim=1)


def own_distances(features: Tensor, centres: Tensor, labels: Tensor) -> Tensor:
    """Squared distances [S, N] of features [N, D] from those of centres [S, K, D] that labels [S, N] name."""
    distances = features.new_empty(labels.shape)
    start = torch.arange(len(centres), device=features.device)[:, None]
    for rows in slices(len(features), len(centres) * features.shape[1], features.device):
        distances[:, rows] = (features[rows] - centres[start, labels[:, rows]]).square().sum(dim=2)
    return distances
