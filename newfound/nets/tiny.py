"""A network small enough to train on two CPU cores: for the 8 x 8 digits, and for tests."""

from __future__ import annotations

from torch import Tensor, nn


class Tiny(nn.Module):
    """Features [N, 128] of images [N, channels, H, W] of at least 8 x 8 pixels: the average over the last maps."""

    width: int = 128

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.blocks = nn.Sequential(
            nn.Sequential(*_block(channels, 32), nn.MaxPool2d(2)),
            nn.Sequential(*_block(32, 64), nn.MaxPool2d(2)),
            nn.Sequential(*_block(64, self.width)),
        )

    def forward(self, images: Tensor) -> Tensor:
        return self.blocks(images).mean(dim=(2, 3))


def _block(inputs: int, outputs: int) -> tuple[nn.Module, ...]:
    return nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()


def tiny(channels: int = 1) -> Tiny:
    """The tiny network, to features [N, 128]."""
    return Tiny(channels)
