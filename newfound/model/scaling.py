"""Scaling images as Pillow does, in operations that a graph for other programs can hold."""

from __future__ import annotations

import torch
from torch import Tensor

FRACTION = 2.0**22
"""Pillow's weights are whole numbers, of which so many make 1."""


def centre_square(images: Tensor, size: int) -> Tensor:
    """The centre square of uint8 images [N, C, H, W], scaled: whole numbers 0 to 255 as float32 [N, C, size, size].

    What Pillow's ``resize`` with the filter BILINEAR gives of that box: weights of 22 binary digits, across first, then
    down, rounded after each. In float64, which holds its whole numbers exactly. Images that are much taller than wide
    newer versions of Pillow scale down first; some levels then differ by one.
    """
    shape = torch._shape_as_tensor(images)  # the exporter would take images.shape for constants
    height, width = shape[2], shape[3]
    side = torch.minimum(height, width)
    # Each made as it is multiplied: onnxruntime up to 1.23 cannot run a transposed float64 factor.
    across = _weights(width, (width - side) // 2, side, size, pixels_in_rows=True)
    down = _weights(height, (height - side) // 2, side, size, pixels_in_rows=False)
    return _rounded(down @ _rounded(images.double() @ across)).float()


def _rounded(sums: Tensor) -> Tensor:
    return torch.floor(sums / FRACTION + 0.5).clamp(0, 255)


def _weights(length: Tensor, first: Tensor, side: Tensor, size: int, *, pixels_in_rows: bool) -> Tensor:
    """How much of each of ``length`` pixels goes into each of ``size`` ones that divide ``side`` pixels from ``first``
    on: whole numbers as float64 [length, size] or [size, length]. A triangle, at least a pixel wide to either side."""
    scale = side.double() / size
    reach = scale.clamp(min=1)
    axis = 0 if pixels_in_rows else 1
    centres = (first + (torch.arange(size, dtype=torch.float64) + 0.5) * scale).unsqueeze(axis)
    pixels = torch.arange(length).double().unsqueeze(1 - axis)  # type: ignore[call-overload]
    begin, end = torch.floor(centres - reach + 0.5), torch.floor(centres + reach + 0.5)
    weights = (1 - torch.abs((pixels - centres + 0.5) * (1 / reach))).clamp(min=0)
    weights = torch.where((pixels >= begin) & (pixels < end), weights, torch.zeros_like(weights))
    return torch.floor(weights / weights.sum(axis, keepdim=True) * FRACTION + 0.5)
