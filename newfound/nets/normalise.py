"""From pixels to what a network sees: each channel with mean 0 and deviation 1 over the training images."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

CONSTANT = 1e-6
"""A channel that deviates less than this is the same everywhere: it is shifted to 0 and not scaled."""


class Normalise(nn.Module):
    """(images - mean) / std for images [N, C, H, W], either uint8 (taken as 0 to 255) or float in 0 to 1.

    ``mean`` and ``std`` [C] are in units of the range 0 to 1, and are buffers, so that they are saved with the weights.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Tensor | Sequence[float], std: Tensor | Sequence[float]) -> None:
        super().__init__()
        self.register_buffer("mean", torch.as_tensor(mean, dtype=torch.float32).clone())
        deviation = torch.as_tensor(std, dtype=torch.float32)
        self.register_buffer("std", torch.where(deviation > CONSTANT, deviation, torch.ones_like(deviation)))

    def forward(self, images: Tensor) -> Tensor:
        if images.dtype == torch.uint8:
            images = images.float() / 255
        return (images - self.mean[:, None, None]) / self.std[:, None, None]
