"""Pair-wise angular separation: how close the nearest prototypes are to each other."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def separation(prototypes: Tensor, groups: Tensor | None = None) -> Tensor:
    """The mean over prototypes [K, D] of the cosine to the nearest other one: a scalar in -1 to 1.

    L_pas of section 3.1.2 of the paper: (1/K) sum_i max_j M_ij with M = P P^T - 2 I, where the diagonal keeps a
    prototype from being its own neighbour. Prototypes are brought to unit length here, which leaves those of the paper
    as they are. With ``groups`` [K] only prototypes of the same group are compared. A prototype that has no other to
    be compared with counts as 0, so the loss is 0 for K = 1.
    """
    # In bfloat16, as autocast would multiply, cosines above .5 come in steps of .004.
    with torch.autocast(prototypes.device.type, enabled=False):
        unit = F.normalize(prototypes.float(), dim=1)
        cosines = unit @ unit.T
    others = ~torch.eye(len(unit), dtype=torch.bool, device=unit.device)
    if groups is not None:
        others = others & (groups[:, None] == groups[None, :])
    nearest = torch.where(others, cosines, -2.0).amax(dim=1)
    return torch.where(others.any(dim=1), nearest, 0.0).mean()
