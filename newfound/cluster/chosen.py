"""The algorithm that the settings name."""

from __future__ import annotations

from torch import Tensor

from newfound.cluster import Clustering
from newfound.cluster.kmeans import kmeans
from newfound.cluster.spectral import spectral
from newfound.cluster.uneven import uneven
from newfound.config.settings import ClusterSettings


def cluster(features: Tensor, k: int, settings: ClusterSettings, seed: int) -> Clustering:
    """``k`` clusters of features [N, D] by the algorithm of the settings."""
    if settings.algorithm == "spectral":
        return spectral(features, k, neighbours=settings.neighbours, seed=seed)
    return (uneven if settings.algorithm == "uneven" else kmeans)(features, k, starts=settings.starts, seed=seed)
