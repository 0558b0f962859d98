"""What tells of pairs of images whether both are of one category."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class PairHead(nn.Module):
    """Logits [n, n, 2] (different, same) of all ordered pairs of features [n, width].

    The head of the similarity network of KCL (Hsu et al. 2018): both features side by side, a linear layer to four
    times ``width``, batch norm over all pairs, ReLU, a linear layer. The first layer is linear in the two features and
    is computed once for each image. So is batch norm: over all pairs, the mean and the variance of a sum of two numbers
    are the sums of theirs. It has no running statistics, because the head always looks at whole batches.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Linear(2 * width, 4 * width, bias=False)  # batch norm would take a bias away
        self.norm = nn.BatchNorm1d(4 * width, track_running_stats=False)
        self.last = nn.Linear(4 * width, 2)

    def forward(self, features: Tensor) -> Tensor:
        one, other = (F.linear(features, weight) for weight in self.first.weight.chunk(2, dim=1))
        with torch.autocast(features.device.type, enabled=False):
            one, other = one.float(), other.float()
            variance = one.var(0, correction=0) + other.var(0, correction=0)
            scale = self.norm.weight * (variance + self.norm.eps).rsqrt()
            one, other = scale * (one - one.mean(0)) + self.norm.bias, scale * (other - other.mean(0))
            logits: Tensor = self.last(F.relu(one[:, None] + other[None]))
        return logits
