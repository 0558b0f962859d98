"""Partitions of features into groups that nobody named, and what all ways of finding them share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

CHUNK = {"cuda": 1 << 26, "cpu": 1 << 20}
"""How many numbers an intermediate table may hold: what a GPU needs to be busy, and what fits a CPU's cache."""


@dataclass(frozen=True)
class Clustering:
    """Labels [N] int64 in 0 to K - 1, centres [K, D] (the means of the clusters), and the inertia.

    The inertia is the sum over all features of the squared distance to the centre of their cluster. Clusters are
    numbered by size, the largest first, and clusters of equal size by their first member, so that the numbers depend on
    the partition alone. Clusters without a member come last; they have the centre of cluster 0, which a search for the
    nearest centre meets first. Where known categories are clusters (``fixed.py``), these keep their numbers.
    """

    labels: Tensor
    centres: Tensor
    inertia: float

    @classmethod
    @torch.no_grad()
    def from_labels(cls, features: Tensor, labels: Tensor, k: int) -> Clustering:
        """The clustering of features [N, D] by labels [N] in 0 to k - 1, which are numbered anew."""
        return cls.numbered(features, by_size(labels, k), k)

    @classmethod
    @torch.no_grad()
    def numbered(cls, features: Tensor, labels: Tensor, k: int) -> Clustering:
        """The clustering of features [N, D] by labels [N] in 0 to k - 1, which keep their numbers."""
        with full_precision(features.device):
            centres = _means(features, labels, k)
            inertia = torch.zeros((), dtype=torch.float64, device=features.device)
            for rows in slices(len(features), features.shape[1], features.device):
                inertia += (working(features[rows]) - centres[labels[rows]]).square().sum(dtype=torch.float64)
        return cls(labels, centres, inertia.item())


def by_size(labels: Tensor, k: int) -> Tensor:
    """The same partition [N], its clusters numbered by size and those of equal size by their first member."""
    plain = labels.cpu()
    sizes = torch.bincount(plain, minlength=k).tolist()
    position = torch.arange(len(plain))
    first = torch.full((k,), len(plain)).scatter_reduce_(0, plain, position, "amin").tolist()
    rank = torch.empty(k, dtype=torch.int64)
    rank[sorted(range(k), key=lambda cluster: (-sizes[cluster], first[cluster]))] = torch.arange(k)
    return rank.to(labels.device)[labels]


def _means(features: Tensor, labels: Tensor, k: int) -> Tensor:
    # Taken around the mean of all, since a sum of many numbers far from 0 loses digits.
    origin = working(features).mean(dim=0)
    sums, counts = origin.new_zeros(k, features.shape[1]), origin.new_zeros(k)
    for rows in slices(len(features), k + features.shape[1], features.device):
        members = one_hot(labels[rows, None], k, origin.dtype)
        sums += members.T @ (working(features[rows]) - origin)
        counts += members.sum(dim=0)
    means = sums / counts.clamp(min=1)[:, None] + origin
    return torch.where(counts[:, None] > 0, means, means[0])


def one_hot(labels: Tensor, k: int, dtype: torch.dtype) -> Tensor:
    """Membership [rows, S k] of labels [rows, S], ones and zeros; products with it give the same sums every time."""
    return (labels[..., None] == torch.arange(k, device=labels.device)).to(dtype).flatten(1)


def working(features: Tensor) -> Tensor:
    """The features in the precision that clustering works in: double stays double, all else becomes single."""
    return features if features.dtype == torch.float64 else features.float()


def slices(rows: int, columns: int, device: torch.device) -> Iterator[slice]:
    """Slices of the rows, such that each with that many columns stays within CHUNK."""
    step = max(1, CHUNK.get(device.type, CHUNK["cpu"]) // columns)
    return (slice(start, start + step) for start in range(0, rows, step))


def check(features: Tensor, k: int) -> None:
    """ValueError unless the features are finite, a table [N, D], and k is between 1 and N."""
    if features.ndim != 2 or not features.numel():
        raise ValueError(f"expected features [N, D] to cluster, got a tensor of shape {tuple(features.shape)}")
    if not 1 <= k <= len(features):
        raise ValueError(f"cannot make {k} clusters of {len(features)} features: choose between 1 and {len(features)}")
    if not torch.stack(torch.aminmax(features)).isfinite().all():
        raise ValueError("cannot cluster these features: some are infinite or not a number")


@contextmanager
def full_precision(device: torch.device) -> Iterator[None]:
    """Inside, products are of full precision, even where training asked for TF32 or automatic mixed precision."""
    backends: tuple[Any, ...] = torch.backends.cuda.matmul, torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
    before = [backend.fp32_precision for backend in backends]
    try:
        for backend in backends:
            backend.fp32_precision = "ieee"
        with torch.autocast(device.type, enabled=False):
            yield
    finally:
        for backend, value in zip(backends, before, strict=True):
            backend.fp32_precision = value
