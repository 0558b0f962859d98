"""What many clusterings agree on."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from newfound.cluster import Clustering
from newfound.cluster.fixed import kmeans_fixed
from newfound.cluster.kmeans import kmeans

SHARES = (0.5, 0.75, 1.0)


@torch.no_grad()
def consensus(
    features: Tensor, k: int, *, runs: int = 12, starts: int = 20, seed: int = 0, known: Tensor | None = None
) -> Clustering:
    """Clusters of features [N, D], which are in the order of their importance, as principal components are.

    k-means is run ``runs`` times, from one start each, on the first half, on three quarters, and on all of the
    dimensions, brought to unit length. The memberships [N, 3 runs k] that come out are then clustered by k-means from
    many starts: images that mostly fell into one cluster stay together. One clustering alone depends on where it
    begins; centres and inertia are those of the unit features. With the labels ``known`` of the first features, known
    categories are the first clusters, as in ``kmeans_fixed``.
    """

    def grouped(some: Tensor, starts: int, seed: int) -> Tensor:
        if known is None:
            return kmeans(some, k, starts=starts, seed=seed).labels
        return kmeans_fixed(some, k, known, starts=starts, seed=seed).labels

    members = []
    for share in SHARES:
        some = F.normalize(features[:, : max(1, round(share * features.shape[1]))])
        for run in range(runs):
            members.append(F.one_hot(grouped(some, 1, seed * runs + run), k).float())
    agreed = grouped(torch.cat(members, 1), starts, seed)
    unit = F.normalize(features)
    return Clustering.from_labels(unit, agreed, k) if known is None else Clustering.numbered(unit, agreed, k)
