"""The loss of prototypical networks: images of an episode find their category's mean."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def prototypical(features: Tensor, support: int) -> Tensor:
    """The mean cross-entropy (a scalar) of finding each query's category, from features [categories, images, D].

    The loss of Snell et al. 2017: the first ``support`` images of a category have its prototype, their mean; the others
    are queries, whose logits are the negative squared distances to all prototypes.
    """
    with torch.autocast(features.device.type, enabled=False):
        features = features.float()
        prototypes, queries = features[:, :support].mean(1), features[:, support:]
        distances = (queries[:, :, None] - prototypes).square().sum(-1)
    truth = torch.arange(len(features), device=features.device)[:, None].expand(distances.shape[:2])
    return F.cross_entropy(-distances.flatten(0, 1), truth.flatten())
