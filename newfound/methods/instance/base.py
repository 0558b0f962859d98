"""What a stage asks of a self-supervised learner."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from torch import Tensor, nn

from newfound.engine.device import SideStream
from newfound.views.multiview import Crops


class InstanceLearner(nn.Module):
    """Learns from the views of images, without labels. Whatever it remembers is a parameter or a buffer.

    A step asks ``look``, then ``loss``; ``after_step`` follows the optimiser.
    """

    uses_extra: ClassVar[bool] = False
    """Whether it learns from extra views; where not, none are made."""
    uses_features: ClassVar[bool] = True
    """Whether it learns from the features of the whole views; where not, ``loss`` may be given none."""

    def look(self, crops: Crops, t: Tensor) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """What is computed without a gradient, and runs beside the encoder's own pass on a GPU: tensors for ``loss``,
        and scalars to log."""
        return {}, {}

    def loss(
        self,
        encoder: nn.Module,
        features: Tensor,
        crops: Crops,
        looked: Callable[[], dict[str, Tensor]],
        t: Tensor,
        extra: Tensor | None = None,
    ) -> dict[str, Tensor]:
        """Scalars, of which "ins" is the loss, from the encoder's features [2n, D] of the whole views. ``looked`` waits
        for the tensors that ``look`` gave: call it late. ``extra`` are the features [E n, D] of the extra views, where
        the stage has computed them already."""
        raise TypeError(f"{type(self).__name__} does not define its loss")

    def groups(self) -> list[dict[str, Any]]:
        """Groups for the optimiser of those parameters that it should not treat as all others."""
        return []

    def after_step(self, encoder: nn.Module, t: Tensor) -> None:
        """Whatever follows the optimiser: moving averages."""

    def warning(self, figures: dict[str, float]) -> str | None:
        """What to tell the person if the figures just logged show that the learner has collapsed."""
        return None


class Looking:
    """A learner's ``look`` at the views, beside what follows it. To call it is to wait for the tensors it gave."""

    def __init__(self, learner: InstanceLearner, crops: Crops, t: Tensor) -> None:
        with SideStream("teacher", crops.whole) as self.beside:
            self.tensors, self.scalars = learner.look(crops, t)

    def __call__(self) -> dict[str, Tensor]:
        self.beside.join(*self.tensors.values(), *self.scalars.values())
        return self.tensors

    def figures(self) -> dict[str, Tensor]:
        """The scalars to log. Waits too: a learner may have had no use for the tensors, and a step that is captured
        may leave nothing running beside it."""
        self()
        return self.scalars
