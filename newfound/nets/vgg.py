"""VGG6: the small network that earlier work on OmniGlot used (four convolutions; the head adds two layers)."""

from __future__ import annotations

from torch import Tensor, nn

DEPTHS = (64, 128, 256, 256)


class VGG(nn.Module):
    """Features [N, width] of images [N, channels, size, size]: the last feature maps, flattened.

    Each of the four blocks (3 x 3 convolution, batch norm, ReLU, 2 x 2 max-pooling) halves the size, so ``width`` is
    256 (size // 16)², and the network takes images of this one size only.
    """

    width: int

    def __init__(self, channels: int, size: int) -> None:
        super().__init__()
        if size < 16:
            raise ValueError(f"vgg6 halves the image four times, so it needs at least 16 pixels, not {size}")
        self.size = size
        self.width = DEPTHS[-1] * (size // 16) ** 2
        self.blocks = nn.Sequential(
            *(_block(before, after) for before, after in zip((channels, *DEPTHS), DEPTHS, strict=False))
        )

    def forward(self, images: Tensor) -> Tensor:
        if images.shape[2:] != (self.size, self.size):
            raise ValueError(
                f"this vgg6 was built for images of {self.size} x {self.size} pixels, got {tuple(images.shape[2:])}"
            )
        return self.blocks(images).flatten(1)


def _block(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(), nn.MaxPool2d(2)
    )


def vgg6(channels: int = 1, size: int = 32) -> VGG:
    """VGG6 for images [N, channels, size, size], to features [N, 1024] at 32 pixels."""
    return VGG(channels, size)
