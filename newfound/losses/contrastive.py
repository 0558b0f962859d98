"""Contrast: views of one image are to be alike, and views of different images are not."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F


def nt_xent(views: Tensor, *, temperature: float = 0.5) -> Tensor:
    """The mean cross-entropy (a scalar) of finding each view's partner among all others, from outputs [2, n, D].

    The loss of SimCLR (Chen et al. 2020): the logits of a view are its cosines with the 2 n - 1 others over the
    temperature, and the right one is the other view of the same image.
    """
    images = views.shape[1]
    if len(views) != 2 or images < 2:
        raise ValueError(f"expected 2 views of at least 2 images: {len(views)}, {images}")
    # In bfloat16, as autocast would multiply, cosines above .5 come in steps of .004.
    with torch.autocast(views.device.type, enabled=False):
        unit = F.normalize(views.float(), dim=-1).flatten(0, 1)
        logits = unit @ unit.T / temperature
    itself = torch.eye(2 * images, dtype=torch.bool, device=views.device)
    partner = torch.arange(2 * images, device=views.device).roll(images)
    return F.cross_entropy(logits.masked_fill(itself, -math.inf), partner)


def info_nce(queries: Tensor, keys: Tensor, queue: Tensor, *, temperature: float = 0.07) -> Tensor:
    """The mean cross-entropy (a scalar) of finding the key of each query among its own and those of the queue.

    The loss of MoCo (He et al. 2020), from queries [n, D], their keys [n, D] and a queue [K, D] of other images' keys.
    The logits are the cosines over the temperature. No gradient goes to keys and queue.
    """
    with torch.autocast(queries.device.type, enabled=False):
        query = F.normalize(queries.float(), dim=1)
        key, others = (F.normalize(given.detach().float(), dim=1) for given in (keys, queue))
        own = (query * key).sum(1, keepdim=True)
        logits = torch.cat([own, query @ others.T], dim=1) / temperature
    return F.cross_entropy(logits, torch.zeros(len(query), dtype=torch.int64, device=query.device))
