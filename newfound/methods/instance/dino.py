"""DINO: a student that predicts, from every view, what its own moving average says of the two whole views."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from newfound.config.settings import MAX_COUNT, number
from newfound.engine.device import SideStream
from newfound.engine.schedule import cosine, value_at
from newfound.losses import self_distillation
from newfound.methods.instance.base import InstanceLearner
from newfound.nets.ema import ema_copy, ema_update
from newfound.nets.heads import DinoHead
from newfound.nets.norm import frozen_statistics
from newfound.views.multiview import Crops


@dataclass(frozen=True)
class DinoSettings:
    """Instance discrimination by self-distillation."""

    hidden: int = number(2048, 1, 2**16)
    """Units of the head's hidden layers."""
    bottleneck: int = number(256, 1, 2**16)
    """Units before the head's last layer."""
    out: int = number(4096, 2, 2**20)
    """Outputs of the head."""
    norm: bool = True
    """Batch norm in the head."""
    student_temperature: float = number(0.1, 1e-3)
    """Temperature of the student's outputs."""
    teacher_temperature: float = number(0.04, 1e-3)
    """Temperature of the teacher's outputs."""
    centre_momentum: float = number(0.9, 0, 1)
    """How much of itself the teacher's centre keeps at each step."""
    momentum: float = number(0.996, 0, 1)
    """Of the teacher, at the first step; it rises to 1 along a cosine."""
    frozen_epochs: int = number(1, 0, MAX_COUNT)
    """Epochs for which the head's last layer does not learn."""


class Dino(InstanceLearner):
    """The paper's instance discrimination (section 3.1.1): the student's head, the teacher, its centre and momentum.

    The teacher keeps batch-norm statistics of its own, by its own passes in training mode.
    """

    uses_extra: ClassVar[bool] = True
    centre: Tensor
    momentum: Tensor

    def __init__(self, encoder: nn.Module, width: int, chosen: DinoSettings, steps: int) -> None:
        super().__init__()
        self.chosen = chosen
        self.head = DinoHead(width, chosen.hidden, chosen.bottleneck, chosen.out, norm=chosen.norm)
        self.teacher = ema_copy(encoder, self.head)
        self.register_buffer("centre", torch.zeros(chosen.out))
        momentum = torch.from_numpy(cosine(chosen.momentum, 1.0, steps)).float()
        self.register_buffer("momentum", momentum, persistent=False)

    @torch.no_grad()
    def look(self, crops: Crops, t: Tensor) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """The teacher's outputs [2, n, O] of the whole views, and figures that show a collapse."""
        encoder, head = self.teacher
        outputs = head(encoder(crops.whole.flatten(0, 1))).float().unflatten(0, crops.whole.shape[:2])
        log_probability = ((outputs - self.centre) / self.chosen.teacher_temperature).log_softmax(-1)
        entropy = -(log_probability.exp() * log_probability).sum(-1).mean() / math.log(self.chosen.out)
        mean = log_probability.exp().mean((0, 1))
        spread = -(mean * mean.clamp(min=1e-12).log()).sum() / math.log(self.chosen.out)
        return {"outputs": outputs}, {"teacher_entropy": entropy, "teacher_spread": spread}

    def loss(
        self,
        encoder: nn.Module,
        features: Tensor,
        crops: Crops,
        looked: Callable[[], dict[str, Tensor]],
        t: Tensor,
        extra: Tensor | None = None,
    ) -> dict[str, Tensor]:
        """L_ins and its share of the loss of an even guess; moves the centre."""
        student = self._student(encoder, features, crops, extra)
        taught = looked()["outputs"]
        loss = self_distillation(
            student,
            taught,
            self.centre,
            student_temperature=self.chosen.student_temperature,
            teacher_temperature=self.chosen.teacher_temperature,
        )
        with torch.no_grad():
            self.centre.lerp_(taught.mean((0, 1)), 1 - self.chosen.centre_momentum)
        return {"ins": loss, "ins_of_uniform": loss.detach() / math.log(self.chosen.out)}

    def _student(self, encoder: nn.Module, features: Tensor, crops: Crops, extra: Tensor | None) -> Tensor:
        """The student's outputs [V, n, O] of all views, from its features [2n, D] of the whole ones and, where they are
        there already, of the ``extra`` ones."""
        student = self.head(features).float().unflatten(0, crops.whole.shape[:2])
        if not len(crops.extra):
            return student
        # Beside what follows, which is the backward pass of the whole views too. Not earlier: the weights, which
        # autocast brings to bfloat16 once for all passes, have to be there.
        with SideStream("extra views", features) as other, frozen_statistics(encoder), frozen_statistics(self.head):
            seen = encoder(crops.extra.flatten(0, 1)) if extra is None else extra
            outputs = self.head(seen).float().unflatten(0, crops.extra.shape[:2])
        other.join(outputs)
        return torch.cat([student, outputs])

    def groups(self) -> list[dict[str, Any]]:
        """The head's last layer, which does not decay, and does not learn for the first epochs."""
        frozen = self.chosen.frozen_epochs
        return [{"params": [self.head.last.weight], "weight_decay": 0.0, "frozen_epochs": frozen}]

    def after_step(self, encoder: nn.Module, t: Tensor) -> None:
        """Move the teacher towards the student."""
        ema_update(self.teacher, encoder, self.head, momentum=value_at(self.momentum, t))

    def warning(self, figures: dict[str, float]) -> str | None:
        """A sentence where the teacher has collapsed."""
        if figures["teacher_entropy"] > 0.999:
            return "the teacher says the same of every image; try a smaller dino.teacher_temperature or dino.out"
        if figures["teacher_spread"] < 0.02:
            return (
                "the teacher has put all images into one output; try a larger dino.centre_momentum or "
                "dino.teacher_temperature"
            )
        return None
