"""EfficientNet-Lite 0, 1 and 2 (Tan and Le 2019; without squeeze-and-excitation, ReLU6 throughout), no classifier.

Parameters carry the names of the public PyTorch weights less the underscore each part of a name begins with.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

STAGES = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
"""Blocks, kernel, stride of the first block, expansion and output channels of each stage of Lite0."""

SCALES = {0: (1.0, 1.0, 224), 1: (1.0, 1.1, 240), 2: (1.1, 1.2, 260)}
"""Factors of width and depth, and the image size it was trained with."""

EPSILON = 1e-3
"""Of the batch norms, as in the training that the public weights come from."""


class SameConv(nn.Conv2d):
    """A convolution whose maps have the size of the input over the stride, rounded up.

    Where the padding is odd, the larger part is at the right and below: with the weights trained so, another padding
    would look half a pixel beside.
    """

    def _conv_forward(self, maps: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        kernel, stride = self.kernel_size[0], self.stride[0]
        (top, bottom), (left, right) = (_padding(side, kernel, stride) for side in maps.shape[2:])
        if top == bottom == left == right:
            return F.conv2d(maps, weight, bias, self.stride, top, groups=self.groups)
        return F.conv2d(F.pad(maps, (left, right, top, bottom)), weight, bias, self.stride, groups=self.groups)


def _normed(conv: nn.Conv2d, norm: nn.BatchNorm2d, maps: Tensor) -> Tensor:
    """norm(conv(maps)), as one convolution where features are read on a CPU."""
    if not _reads_on_cpu(norm, maps):
        return norm(conv(maps))
    assert norm.running_mean is not None
    assert norm.running_var is not None
    scale = norm.weight / torch.sqrt(norm.running_var + norm.eps)
    return conv._conv_forward(maps, conv.weight * scale[:, None, None, None], norm.bias - norm.running_mean * scale)


def _reads_on_cpu(module: nn.Module, maps: Tensor) -> bool:
    """Whether features are read on a CPU: there each further pass over the maps costs about as much as a convolution.

    With batch norms folded into the convolutions one core reads 140 images of 224 pixels a second, and 110 without.
    """
    return maps.device.type == "cpu" and not (module.training or torch.is_grad_enabled())


def _padding(side: int, kernel: int, stride: int) -> tuple[int, int]:
    total = max((-(-side // stride) - 1) * stride + kernel - side, 0)
    return total // 2, total - total // 2


class Block(nn.Module):
    """From maps [N, inputs, H, W] to [N, outputs, H / stride, W / stride]: widen, filter each channel, narrow again."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        inner = inputs * expansion
        self.widens, self.residual = expansion > 1, stride == 1 and inputs == outputs
        if self.widens:
            self.expand_conv = nn.Conv2d(inputs, inner, 1, bias=False)
            self.bn0 = nn.BatchNorm2d(inner, EPSILON)
        self.depthwise_conv = SameConv(inner, inner, kernel, stride, groups=inner, bias=False)
        self.bn1 = nn.BatchNorm2d(inner, EPSILON)
        self.project_conv = nn.Conv2d(inner, outputs, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs, EPSILON)

    def forward(self, maps: Tensor) -> Tensor:
        inner = F.relu6(_normed(self.expand_conv, self.bn0, maps), inplace=True) if self.widens else maps
        inner = F.relu6(_normed(self.depthwise_conv, self.bn1, inner), inplace=True)
        inner = _normed(self.project_conv, self.bn2, inner)
        return inner + maps if self.residual else inner


class EfficientNetLite(nn.Module):
    """Features [N, 1280] of images [N, channels, H, W]: the average over the last feature maps."""

    width: int = 1280

    def __init__(self, number: int, channels: int = 3) -> None:
        super().__init__()
        wider, deeper, _ = SCALES[number]
        self.conv_stem = SameConv(channels, 32, 3, 2, bias=False)
        self.bn0 = nn.BatchNorm2d(32, EPSILON)
        blocks, inputs = [], 32
        for place, (repeats, kernel, stride, expansion, wanted) in enumerate(STAGES):
            outputs = _round_to_8(wanted * wider)
            inside = 0 < place < len(STAGES) - 1  # the first and the last stage of a Lite network are not repeated more
            for i in range(math.ceil(repeats * deeper) if inside else repeats):
                blocks.append(Block(inputs, outputs, kernel, stride if i == 0 else 1, expansion))
                inputs = outputs
        self.blocks = nn.Sequential(*blocks)
        self.conv_head = nn.Conv2d(inputs, self.width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(self.width, EPSILON)

    def forward(self, images: Tensor) -> Tensor:
        if _reads_on_cpu(self, images):
            images = images.contiguous(memory_format=torch.channels_last)
        maps = self.blocks(F.relu6(_normed(self.conv_stem, self.bn0, images), inplace=True))
        return F.relu6(_normed(self.conv_head, self.bn1, maps), inplace=True).mean(dim=(2, 3))


def _round_to_8(channels: float) -> int:
    """The nearest multiple of 8, the next one where that would take away more than a tenth."""
    nearest = max(8, int(channels + 4) // 8 * 8)
    return nearest if nearest >= 0.9 * channels else nearest + 8
