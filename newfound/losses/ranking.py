"""Ranking statistics: which images have their largest features in the same places."""

from __future__ import annotations

import torch
from torch import Tensor


@torch.no_grad()
def same_top_ranks(features: Tensor, k: int) -> Tensor:
    """Which pairs [n, n] (bool) of features [n, D] have the same set of ``k`` largest dimensions, in whatever order.

    The pseudo label of AutoNovel (Han et al. 2020): such images are taken for ones of one category. Of equal values the
    one with the smaller index counts as larger.
    """
    top = features.argsort(dim=1, descending=True, stable=True)[:, :k]
    members = torch.zeros(features.shape, device=features.device).scatter_(1, top, 1.0)
    with torch.autocast(features.device.type, enabled=False):
        return members @ members.T > k - 0.5
