"""Clusters for categories that may differ in size. k-means cuts a large category and throws small ones together, since
it prefers clusters of like extent; pieces that are put together again do not, but serve equal categories less well."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from newfound.cluster import Clustering
from newfound.cluster.consensus import consensus
from newfound.cluster.kmeans import kmeans

PIECES = 2
"""How many times as many pieces as clusters are put together; docs/log/rehearsals.md has three times as many."""
AHEAD = 0.01
"""What merged pieces have to be ahead by, in silhouette, of what clusterings agree on: docs/pretrained.md."""


@torch.no_grad()
def uneven(features: Tensor, k: int, *, starts: int = 20, seed: int = 0) -> Clustering:
    """Clusters of features [N, D], which are in the order of their importance: those many clusterings agree on, or
    pieces put together, whichever has the larger silhouette."""
    agreed = consensus(features, k, starts=starts, seed=seed)
    unit = F.normalize(features)
    labels = merged(unit, k, PIECES * k, starts=starts, seed=seed)
    ahead = silhouette(unit, labels, k) > silhouette(unit, agreed.labels, k) + AHEAD
    return Clustering.from_labels(unit, labels, k) if ahead else agreed


def merged(features: Tensor, k: int, pieces: int, *, starts: int = 20, seed: int = 0) -> Tensor:
    """Labels [N] in 0 to k - 1 of unit features [N, D]: ``pieces`` clusters of k-means, at most one for two features,
    of which the two with the largest mean cosine between their members become one until k are left."""
    pieces = max(k, min(pieces, len(features) // 2))
    labels = kmeans(features, pieces, starts=starts, seed=seed).labels
    members = F.one_hot(labels, pieces).to(features.dtype)
    sizes = members.sum(0).cpu()
    means = (members.T @ features).cpu() / sizes.clamp(min=1)[:, None]
    cosines = means @ means.T
    cosines.masked_fill_((sizes == 0) | (sizes == 0)[:, None], -2.0).fill_diagonal_(-2.0)
    group = torch.arange(pieces)
    for _ in range(int((sizes > 0).sum()) - k):
        one, other = divmod(int(cosines.argmax()), pieces)
        both = (sizes[one] * cosines[one] + sizes[other] * cosines[other]) / (sizes[one] + sizes[other])
        both[cosines[one] == -2.0] = -2.0
        cosines[one], cosines[:, one] = both, both
        cosines[other], cosines[:, other] = -2.0, -2.0
        cosines[one, one] = -2.0
        sizes[one] += sizes[other]
        group[group == other] = one
    return torch.unique(group.to(labels.device)[labels], return_inverse=True)[1]


def silhouette(features: Tensor, labels: Tensor, k: int) -> float:
    """How much nearer unit features [N, D] are to the others of their cluster than to the next one, by the mean cosine
    distance (Rousseeuw 1987): the mean over clusters of their members' means, from -1 to 1. A cluster of one has 0."""
    members = F.one_hot(labels, k).to(features.dtype)
    sizes = members.sum(0)
    cosines = features @ (members.T @ features).T
    own, size = cosines.gather(1, labels[:, None])[:, 0], sizes[labels]
    inside = 1 - (own - 1) / (size - 1).clamp(min=1)
    means = cosines / sizes.clamp(min=1)
    outside = 1 - means.masked_fill(members.bool() | (sizes == 0), -2.0).amax(1)
    each = torch.where(size > 1, (outside - inside) / torch.maximum(outside, inside).clamp(min=1e-12), 0.0)
    return float(((members.T @ each) / sizes.clamp(min=1))[sizes > 0].mean())
