"""The views of supervised training on small images: a random crop after padding, and a random mirror image."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True)
class PadCropFlip:
    """Each image is padded by ``pad`` pixels of level ``fill``, cropped to its old size anywhere in it, and mirrored
    with probability one half if ``flip``."""

    pad: int = 4
    flip: bool = True
    fill: int = 0

    def draw(self, generator: torch.Generator, n: int, t: Tensor) -> dict[str, Tensor]:
        """Offsets "top" and "left" in 0..2*pad and "mirror" (bool), [n] each."""
        device = generator.device
        offsets = torch.randint(0, 2 * self.pad + 1, (2, n), generator=generator, device=device)
        mirror = torch.rand(n, generator=generator, device=device) < (0.5 if self.flip else 0.0)
        return {"top": offsets[0], "left": offsets[1], "mirror": mirror}

    def apply(self, images: Tensor, parameters: dict[str, Tensor]) -> Tensor:
        """The views, float32 in 0..1 [n, C, H, W], of uint8 images of that shape."""
        n, channels, height, width = images.shape
        device = images.device
        padded = F.pad(images, [self.pad] * 4, value=self.fill)
        rows = parameters["top"][:, None] + torch.arange(height, device=device)
        columns = torch.arange(width, device=device).expand(n, width)
        columns = torch.where(parameters["mirror"][:, None], width - 1 - columns, columns) + parameters["left"][:, None]
        image = torch.arange(n, device=device)[:, None, None, None]
        channel = torch.arange(channels, device=device)[None, :, None, None]
        return padded[image, channel, rows[:, None, :, None], columns[:, None, None, :]].float() / 255
