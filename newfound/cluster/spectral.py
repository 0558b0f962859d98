"""Spectral clustering of a graph of nearest neighbours: for groups that are no balls, such as hand-drawn symbols."""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from sklearn.cluster import SpectralClustering
from sklearn.neighbors import NearestNeighbors, kneighbors_graph
from torch import Tensor

from newfound.cluster import Clustering, check, working

Metric = Literal["cosine", "euclidean"]


def spectral(features: Tensor, k: int, *, neighbours: int = 10, metric: Metric = "cosine", seed: int = 0) -> Clustering:
    """The clustering of features [N, D] into k clusters by the spectrum of their graph of nearest neighbours.

    Two features are joined with weight 1 if each is among the other's nearest ``neighbours`` (of which a feature itself
    is one, as in scikit-learn), and with weight 1/2 if only one is. For the metric "cosine" features are scaled to
    length 1 first. A graph that falls into parts is made whole by the shortest edges between them, so that parts which
    are more numerous than clusters are merged by nearness. Centres and inertia are those of the features as given.
    """
    check(features, k)
    if metric not in ("cosine", "euclidean"):
        raise ValueError(f"there is no metric {metric!r} for spectral clustering; choose cosine or euclidean")
    n = len(features)
    if k in (1, n):  # the eigenvalue solver cannot find as many vectors as there are features
        return Clustering.from_labels(features, torch.arange(n, device=features.device) % k, k)
    points = working(features.detach()).cpu().numpy()
    if metric == "cosine":
        points = points / np.maximum(np.linalg.norm(points, axis=1, keepdims=True), np.finfo(points.dtype).tiny)
    directed = kneighbors_graph(points, max(1, min(neighbours, n - 1)), include_self=True)
    graph = _whole(csr_array((directed + directed.T) / 2), points)
    found = SpectralClustering(k, affinity="precomputed", random_state=seed).fit(graph)
    return Clustering.from_labels(features, torch.as_tensor(found.labels_).long().to(features.device), k)


def _whole(graph: csr_array, points: np.ndarray) -> csr_array:
    """The graph [N, N] made connected by edges of weight 1, each from a part to the point outside that is nearest."""
    n_parts, part = connected_components(graph, directed=False)
    while n_parts > 1:
        edges = set()
        # The largest part waits to be joined: mostly it holds nearly all points, and the search costs little.
        for small in set(range(n_parts)) - {np.bincount(part).argmax()}:
            inside, outside = np.flatnonzero(part == small), np.flatnonzero(part != small)
            distances, nearest = NearestNeighbors(n_neighbors=1).fit(points[outside]).kneighbors(points[inside])
            here = distances[:, 0].argmin()
            edges.add(tuple(sorted((inside[here], outside[nearest[here, 0]]))))
        ends = np.array(sorted(edges), dtype=np.int32).T  # scikit-learn takes no longer indices
        bridges = csr_array((np.ones(len(edges)), ends), shape=graph.shape)
        graph = csr_array(graph + bridges + bridges.T)
        n_parts, part = connected_components(graph, directed=False)
    return graph
