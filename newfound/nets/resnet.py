"""ResNet-18 (He et al. 2016) without its classifier, for small images (CIFAR stem) and for large ones (ImageNet stem).

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
        shortcut = maps
        if self.downsample is not None:
            convolution, norm = self.downsample
            assert isinstance(norm, nn.BatchNorm2d)
            shortcut = batch_norm(convolution(maps), norm, relu=False)
        maps = batch_norm(self.conv1(maps), self.bn1)
        return batch_norm(self.conv2(maps), self.bn2, shortcut=shortcut)


class ResNet(nn.Module):
    """Features [N, 512] of images [N, channels, H, W]: the average over the last feature maps.

    The CIFAR stem is a 3 x 3 convolution of stride 1 without max-pooling, so that an image of 32 pixels still has maps
    of 4 x 4 at the end; the ImageNet stem divides the size by 4 first.
    """

    width: int = 512

    def __init__(self, channels: int, stem: Stem) -> None:
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
        self.layer1 = _layer(64, 64, stride=1)
        self.layer2 = _layer(64, 128, stride=2)
        self.layer3 = _layer(128, 256, stride=2)
        self.layer4 = _layer(256, 512, stride=2)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def maps(self, images: Tensor) -> Tensor:
        """The last feature maps [N, 512, h, w], before they are averaged."""
        maps = self.maxpool(batch_norm(self.conv1(images), self.bn1))
        return self.layer4(self.layer3(self.layer2(self.layer1(maps))))

    def forward(self, images: Tensor) -> Tensor:
        return self.maps(images).mean(dim=(2, 3))


def _layer(inputs: int, outputs: int, stride: int) -> nn.Sequential:
    return nn.Sequential(BasicBlock(inputs, outputs, stride), BasicBlock(outputs, outputs, stride=1))


def resnet18(channels: int = 3, stem: Stem = "cifar") -> ResNet:
    """ResNet-18 to features [N, 512], initialised after He et al. 2015 (fan out)."""
    return ResNet(channels, stem)
