"""ResNet-18, 34 and 50 (He et al. 2016), no classifier, for small images (CIFAR stem) and large ones (ImageNet stem).

The parameters carry the usual public names (conv1, bn1, layer1.0.conv1, ..., layer2.0.downsample.0), so
published weights fit by name.
"""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

from newfound.nets.norm import batch_norm

Stem = Literal["cifar", "imagenet"]


class BasicBlock(nn.Module):
    """From maps [N, inputs, H, W] to [N, outputs, H / stride, W / stride]: two 3 x 3 convolutions beside a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample: nn.Sequential | None = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, maps: Tensor) -> Tensor:
        shortcut = _shortcut(maps, self.downsample)
        maps = batch_norm(self.conv1(maps), self.bn1)
        return batch_norm(self.conv2(maps), self.bn2, shortcut=shortcut)


class Bottleneck(nn.Module):
    """From maps [N, inputs, H, W] to [N, 4 inner, H / stride, W / stride]: a 3 x 3 convolution of ``inner`` channels,
    which does the stride, between two of 1 x 1, beside a shortcut."""

    def __init__(self, inputs: int, inner: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, inner, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(inner)
        self.conv2 = nn.Conv2d(inner, inner, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(inner)
        self.conv3 = nn.Conv2d(inner, 4 * inner, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(4 * inner)
        self.downsample: nn.Sequential | None = None
        if stride != 1 or inputs != 4 * inner:
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, 4 * inner, 1, stride, bias=False), nn.BatchNorm2d(4 * inner)
            )

    def forward(self, maps: Tensor) -> Tensor:
        shortcut = _shortcut(maps, self.downsample)
        maps = batch_norm(self.conv1(maps), self.bn1)
        maps = batch_norm(self.conv2(maps), self.bn2)
        return batch_norm(self.conv3(maps), self.bn3, shortcut=shortcut)


def _shortcut(maps: Tensor, downsample: nn.Sequential | None) -> Tensor:
    """What a block adds to its convolutions' result: the maps it was given, brought to its shape."""
    if downsample is None:
        return maps
    convolution, norm = downsample
    assert isinstance(norm, nn.BatchNorm2d)
    return batch_norm(convolution(maps), norm, relu=False)


class ResNet(nn.Module):
    """Features [N, width] of images [N, channels, H, W]: the average over the last feature maps. ``width`` is 512, or
    2048 with bottlenecks, and ``depths`` the number of blocks in each of the four layers.

    The CIFAR stem is a 3 x 3 convolution of stride 1 without max-pooling, so that an image of 32 pixels still has maps
    of 4 x 4 at the end; the ImageNet stem divides the size by 4 first.
    """

    width: int

    def __init__(
        self, channels: int, stem: Stem, depths: tuple[int, int, int, int] = (2, 2, 2, 2), bottleneck: bool = False
    ) -> None:
        super().__init__()
        if stem == "cifar":
            self.conv1 = nn.Conv2d(channels, 64, 3, padding=1, bias=False)
            self.maxpool: nn.Module = nn.Identity()
        elif stem == "imagenet":
            self.conv1 = nn.Conv2d(channels, 64, 7, stride=2, padding=3, bias=False)
            self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        else:
            raise ValueError(f"there is no stem {stem!r}; choose cifar or imagenet")
        self.bn1 = nn.BatchNorm2d(64)
        wider = 4 if bottleneck else 1
        self.layer1 = _layer(64, 64, 1, depths[0], bottleneck)
        self.layer2 = _layer(64 * wider, 128, 2, depths[1], bottleneck)
        self.layer3 = _layer(128 * wider, 256, 2, depths[2], bottleneck)
        self.layer4 = _layer(256 * wider, 512, 2, depths[3], bottleneck)
        self.width = 512 * wider
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    @property
    def blocks(self) -> nn.Sequential:
        """The blocks of all four layers."""
        return nn.Sequential(*self.layer1, *self.layer2, *self.layer3, *self.layer4)

    def maps(self, images: Tensor) -> Tensor:
        """The last feature maps [N, width, h, w], before they are averaged."""
        maps = self.maxpool(batch_norm(self.conv1(images), self.bn1))
        return self.layer4(self.layer3(self.layer2(self.layer1(maps))))

    def forward(self, images: Tensor) -> Tensor:
        return self.maps(images).mean(dim=(2, 3))


def _layer(inputs: int, inner: int, stride: int, depth: int, bottleneck: bool) -> nn.Sequential:
    block, wider = (Bottleneck, 4) if bottleneck else (BasicBlock, 1)
    more = [block(inner * wider, inner, stride=1) for _ in range(depth - 1)]
    return nn.Sequential(block(inputs, inner, stride), *more)


def resnet18(channels: int = 3, stem: Stem = "cifar") -> ResNet:
    """ResNet-18 to features [N, 512], initialised after He et al. 2015 (fan out)."""
    return ResNet(channels, stem)


def resnet34(channels: int = 3, stem: Stem = "imagenet") -> ResNet:
    """ResNet-34 to features [N, 512]."""
    return ResNet(channels, stem, (3, 4, 6, 3))


def resnet50(channels: int = 3, stem: Stem = "imagenet") -> ResNet:
    """ResNet-50 to features [N, 2048]."""
    return ResNet(channels, stem, (3, 4, 6, 3), bottleneck=True)
