"""The algorithm that the settings name."""

from __future__ import annotations

from torch import Tensor

from newfound.cluster import Clustering
from newfound.cluster.consensus import consensus
from newfound.cluster.fixed import kmeans_fixed
from newfound.cluster.kmeans import kmeans
from newfound.cluster.spectral import spectral
from newfound.cluster.uneven import uneven
from newfound.config.settings import ClusterSettings


def cluster(features: Tensor, k: int, settings: ClusterSettings, seed: int, known: Tensor | None = None) -> Clustering:
    """``k`` clusters of features [N, D] by the algorithm of the settings.

    With the labels ``known`` [n] of the first features the first clusters are these categories, to which the labelled
    features belong for good: by what many clusterings agree on where the algorithm is "uneven", else by k-means
    (docs/mixed.md).
    """
    if known is not None:
        if settings.algorithm == "uneven":
            return consensus(features, k, known=known, starts=settings.starts, seed=seed)
        return kmeans_fixed(features, k, known, starts=settings.starts, seed=seed)
    if settings.algorithm == "spectral":
        return spectral(features, k, neighbours=settings.neighbours, seed=seed)
    return (uneven if settings.algorithm == "uneven" else kmeans)(features, k, starts=settings.starts, seed=seed)
