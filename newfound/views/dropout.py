"""Views of features: some of their numbers are forgotten."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class FeatureDropout:
    """Each of the ``width`` numbers is 0 with the probability ``rate``, and the others are larger by as much."""

    width: int
    rate: float

    def draw(self, generator: torch.Generator, n: int, t: Tensor) -> dict[str, Tensor]:
        return {"chance": torch.rand(n, self.width, generator=generator, device=generator.device)}

    def apply(self, images: Tensor, parameters: dict[str, Tensor]) -> Tensor:
        """Features [n, width] of those [n, width, 1, 1] that came in the place of images."""
        kept = parameters["chance"] >= self.rate
        return images.flatten(1) * kept / (1 - self.rate)
