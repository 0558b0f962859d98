"""How well features tell the known categories apart: a vote of the nearest labelled images."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from newfound.errors import UserError

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
    features, queries = torch.as_tensor(features).float(), torch.as_tensor(queries).float()
    labels = torch.as_tensor(labels)
    _check(features, labels, queries, n_classes)
    if neighbours < 1 or not temperature > 0:
        raise UserError(
            f"neighbours is {neighbours} and temperature {temperature}: there is a vote of 1 neighbour or more, at a "
            "temperature above 0"
        )
    features, labels = F.normalize(features), labels.long()
    found = []
    for some in F.normalize(queries).split(1024):
        cosine, nearest = (some @ features.T).topk(min(neighbours, len(features)), dim=1)
        votes = some.new_zeros(len(some), n_classes)
        votes.scatter_add_(1, labels[nearest], (cosine / temperature).exp())
        found.append(votes.argmax(1))
    return torch.cat(found)


def _check(features: Tensor, labels: Tensor, queries: Tensor, n_classes: int) -> None:
    """Stop where the images that vote, their classes and the queries do not fit."""
    shapes = [list(one.shape) for one in (features, labels, queries)]
    if features.ndim != 2 or queries.ndim != 2 or features.shape[1] != queries.shape[1] or shapes[1] != shapes[0][:1]:
        raise UserError(f"features [n, D], their labels [n] and queries [m, D] do not fit: their shapes are {shapes}")
    if not len(labels):
        raise UserError("there are no labelled features, so none can vote")
    if labels.is_floating_point() or labels.is_complex():
        raise UserError(f"the labels of features are whole numbers, and these are of the type {labels.dtype}")
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= n_classes:
        raise UserError(f"the labels of features count from 0 to n_classes - 1, {n_classes - 1}; got {low} to {high}")
    if not (features.isfinite().all() and queries.isfinite().all()):
        raise UserError("features and queries are finite numbers, and one of these is infinite or a NaN")
