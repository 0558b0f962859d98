"""Two views of each image, drawn alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from newfound.views.crop import PadCropFlip
from newfound.views.dropout import FeatureDropout


@dataclass(frozen=True)
class Twice:
    """Two views [2, n, ...] of each image, both as ``views`` makes one."""

    views: PadCropFlip | FeatureDropout

    def draw(self, generator: torch.Generator, n: int, t: Tensor) -> dict[str, Tensor]:
        return self.views.draw(generator, 2 * n, t)

    def apply(self, images: Tensor, parameters: dict[str, Tensor]) -> Any:
        return self.views.apply(torch.cat([images, images]), parameters).unflatten(0, (2, -1))
