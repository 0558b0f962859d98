"""What stage I asks of a self-supervised learner."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from newfound.views.multiview import Crops


class InstanceLearner(nn.Module):
    """Learns to tell images apart by their views, without labels. Whatever it remembers is a parameter or a buffer.

    A step asks ``look``, then ``loss``; ``after_step`` follows the optimiser.
    """

    def look(self, crops: Crops, t: Tensor) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """What is computed without a gradient, and runs beside the encoder's own pass on a GPU: tensors for ``loss``,
        and scalars to log."""
        return {}, {}

    def loss(
        self, encoder: nn.Module, features: Tensor, crops: Crops, looked: Callable[[], dict[str, Tensor]], t: Tensor
    ) -> dict[str, Tensor]:
        """Scalars, of which "ins" is the loss, from the encoder's features [2n, D] of the whole views. ``looked`` waits
        for the tensors that ``look`` gave: call it late."""
        raise TypeError(f"{type(self).__name__} does not define its loss")

    def groups(self) -> list[dict[str, Any]]:
        """Groups for the optimiser of those parameters that it should not treat as all others."""
        return []

    def after_step(self, encoder: nn.Module, t: Tensor) -> None:
        """Whatever follows the optimiser: moving averages, queues."""

    def warning(self, figures: dict[str, float]) -> str | None:
        """What to tell the person if the figures just logged show that the learner has collapsed."""
        return None
