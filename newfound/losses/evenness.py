"""Mean-entropy regularisation: the categories share the images of a batch."""

from __future__ import annotations

import torch
from torch import Tensor

TINY = torch.finfo(torch.float32).tiny


def unevenness(logits: Tensor, allowed: Tensor) -> Tensor:
    """The divergence (a scalar) of the mean softmax of logits [views, n, C] from an even one; ``allowed`` [n, C] (bool)
    says which categories each image may have.

    KL(p || e) of the mean probability p [C] over views and images from e [C], in which every image is spread evenly
    over its categories. Where all images may have all categories it is log C - H(p), the regulariser of SimGCD (Wen et
    al. 2023). The logits of categories that an image may not have are far below the others.
    """
    mean = logits.float().softmax(-1).mean((0, 1))
    even = (allowed / allowed.sum(-1, keepdim=True)).mean(0)
    return (mean * (mean.clamp_min(TINY).log() - even.clamp_min(TINY).log())).sum()
