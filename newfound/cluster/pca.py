"""Principal components: the directions in which features vary most."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from newfound.cluster import full_precision


@torch.no_grad()
def principal_components(features: Tensor, k: int) -> Tensor:
    """The coordinates [N, k] of features [N, D], around their mean, along the k directions of the largest variance.

    The first column varies most. Where the features have fewer than k dimensions, the last columns are 0.
    """
    with full_precision(features.device):
        centred = features.double() - features.double().mean(0)
        directions = torch.linalg.eigh(centred.T @ centred).eigenvectors.flip(1)[:, :k]
        found = (centred @ directions).to(features.dtype)
    return F.pad(found, (0, k - found.shape[1]))
