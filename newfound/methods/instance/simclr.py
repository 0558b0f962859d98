"""SimCLR: each view is to find the other view of its image among all views of the batch."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn

from newfound.config.settings import number
from newfound.losses import nt_xent
from newfound.methods.instance.base import InstanceLearner
from newfound.nets.heads import projection
from newfound.views.multiview import Crops


@dataclass(frozen=True)
class SimCLRSettings:
    """Contrast within a batch."""

    hidden: int = number(512, 1, 2**16)
    """Units of the head's hidden layer."""
    out: int = number(128, 2, 2**16)
    """Outputs of the head."""
    temperature: float = number(0.5, 1e-3)
    """Temperature of the contrast."""


class SimCLR(InstanceLearner):
    """Contrast of the two whole views (Chen et al. 2020), behind an MLP that features are read without."""

    def __init__(self, encoder: nn.Module, width: int, chosen: SimCLRSettings, steps: int) -> None:
        super().__init__()
        self.chosen = chosen
        self.head = projection(width, chosen.hidden, chosen.out)

    def loss(
        self,
        encoder: nn.Module,
        features: Tensor,
        crops: Crops,
        looked: Callable[[], dict[str, Tensor]],
        t: Tensor,
        extra: Tensor | None = None,
    ) -> dict[str, Tensor]:
        """NT-Xent, and its share of what it is where all views are alike."""
        outputs = self.head(features).unflatten(0, (2, -1))
        loss = nt_xent(outputs, temperature=self.chosen.temperature)
        return {"ins": loss, "ins_of_uniform": loss.detach() / math.log(len(features) - 1)}
