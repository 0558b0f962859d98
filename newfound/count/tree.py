"""Trees of features: what is near is joined first, and a cut gives any number of clusters."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from scipy.cluster.hierarchy import fcluster, linkage
from torch import Tensor

NEIGHBOURS = 8


@torch.no_grad()
def mean_shift(features: Tensor, rounds: int, neighbours: int = NEIGHBOURS) -> Tensor:
    """Unit features [N, D], each moved halfway to the mean of its nearest ones and brought to unit length again, as
    often as there are ``rounds`` (contrastive mean shift: Choi et al. 2024)."""
    for _ in range(rounds):
        cosines = features @ features.T
        cosines.fill_diagonal_(-2.0)
        nearest = cosines.topk(min(neighbours, len(features) - 1), dim=1).indices
        features = F.normalize(0.5 * features + 0.5 * features[nearest].mean(1))
    return features


class Tree:
    """Ward's tree of features [N, D]: the two clusters are joined that raise the sum of squares the least."""

    def __init__(self, features: Tensor) -> None:
        self.joins = linkage(features.double().numpy(), "ward")

    def gaps(self, k: np.ndarray) -> np.ndarray:
        """How much dearer it is to join two of k clusters than it was to come to k, on a log scale, for each k [m]."""
        heights = np.concatenate([self.joins[:, 2], [np.inf]])
        low, high = (np.log(np.maximum(heights[len(self.joins) + at - k], 1e-12)) for at in (0, 1))
        found: np.ndarray = high - low
        return found

    def cut(self, k: int) -> np.ndarray:
        """Labels [N] from 0 of k clusters, or of fewer where features are the same."""
        return fcluster(self.joins, k, "maxclust").astype(np.int64) - 1
