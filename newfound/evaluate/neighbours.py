"""How well features tell the known categories apart: a vote of the nearest labelled images."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

NEIGHBOURS, TEMPERATURE = 20, 0.07


@torch.no_grad()
def vote(
    features: Tensor | np.ndarray,
    labels: Tensor | np.ndarray,
    queries: Tensor | np.ndarray,
    n_classes: int,
    *,
    neighbours: int = NEIGHBOURS,
    temperature: float = TEMPERATURE,
) -> Tensor:
    """The class [m] of each of the queries [m, D] by its nearest features [n, D], whose classes are ``labels`` [n],
    whole numbers from 0 to n_classes - 1.

    Nearest by the cosine; a neighbour's vote weighs exp(cosine / temperature), as is usual for self-supervised features
    (Wu et al. 2018). Computed where the features are, some queries at a time.
    """
    features, labels, queries = torch.as_tensor(features), torch.as_tensor(labels), torch.as_tensor(queries)
    features = F.normalize(features.float())
    found = []
    for some in F.normalize(queries.float()).split(1024):
        cosine, nearest = (some @ features.T).topk(min(neighbours, len(features)), dim=1)
        votes = some.new_zeros(len(some), n_classes)
        votes.scatter_add_(1, labels[nearest], (cosine / temperature).exp())
        found.append(votes.argmax(1))
    return torch.cat(found)
