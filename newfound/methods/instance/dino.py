"""DINO: a student that predicts, from every view, what its own moving average says of the two whole views."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from newfound.config import settings
from newfound.engine.device import Beside
from newfound.engine.schedule import cosine, value_at
from newfound.losses import self_distillation
from newfound.nets.average import follow, teacher_of
from newfound.nets.heads import DinoHead
from newfound.views.multiview import Crops


class SelfDistillation(nn.Module):
    """The paper's instance discrimination (section 3.1.1): the student's head, the teacher, its centre and momentum.

    The teacher keeps batch-norm statistics of its own, by its own passes in training mode.
    """

    centre: Tensor
    momentum: Tensor

    temperature: Tensor

    def __init__(self, encoder: nn.Module, width: int, chosen: settings.Dino, steps: int, epochs: int) -> None:
        super().__init__()
        self.chosen = chosen
        self.head = DinoHead(width, chosen.hidden, chosen.bottleneck, chosen.out, norm=chosen.norm)
        self.teacher = teacher_of(encoder, self.head)
        self.register_buffer("centre", torch.zeros(chosen.out))
        momentum = torch.from_numpy(cosine(chosen.momentum, 1.0, steps)).float()
        self.register_buffer("momentum", momentum, persistent=False)
        self.register_buffer("temperature", _temperatures(chosen, steps, epochs), persistent=False)

    @torch.no_grad()
    def teach(self, crops: Crops, t: Tensor) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """The teacher's features [2n, D] and outputs [2, n, O] of the whole views, and figures that show a collapse."""
        encoder, head = self.teacher
        features = encoder(crops.whole.flatten(0, 1))
        outputs = head(features).float().unflatten(0, crops.whole.shape[:2])
        log_probability = ((outputs - self.centre) / value_at(self.temperature, t)).log_softmax(-1)
        entropy = -(log_probability.exp() * log_probability).sum(-1).mean() / math.log(self.chosen.out)
        mean = log_probability.exp().mean((0, 1))
        spread = -(mean * mean.clamp(min=1e-12).log()).sum() / math.log(self.chosen.out)
        return features, outputs, {"teacher_entropy": entropy, "teacher_spread": spread}

    def student(self, encoder: nn.Module, features: Tensor, crops: Crops) -> Tensor:
        """The student's outputs [V, n, O] of all views, from its features [2n, D] of the whole ones."""
        student = self.head(features).float().unflatten(0, crops.whole.shape[:2])
        if not len(crops.extra):
            return student
        # Beside what follows, which is the backward pass of the whole views too. Not earlier: the weights, which
        # autocast brings to bfloat16 once for all passes, have to be there.
        with Beside("extra views", features) as other, frozen_statistics(encoder), frozen_statistics(self.head):
            extra = self.head(encoder(crops.extra.flatten(0, 1))).float().unflatten(0, crops.extra.shape[:2])
        other.join(extra)
        return torch.cat([student, extra])

    def loss(self, student: Tensor, taught: Tensor, t: Tensor) -> dict[str, Tensor]:
        """L_ins and its share of the loss of an even guess, from outputs of the student [V, n, O] and of the teacher
        [2, n, O]; moves the centre."""
        loss = self_distillation(
            student,
            taught,
            self.centre,
            student_temperature=self.chosen.student_temperature,
            teacher_temperature=value_at(self.temperature, t),
        )
        with torch.no_grad():
            self.centre.lerp_(taught.mean((0, 1)), 1 - self.chosen.centre_momentum)
        return {"ins": loss, "ins_of_uniform": loss.detach() / math.log(self.chosen.out)}

    def after_step(self, encoder: nn.Module, t: Tensor) -> None:
        """Move the teacher towards the student."""
        follow(self.teacher, encoder, self.head, momentum=value_at(self.momentum, t))

    def warning(self, figures: dict[str, float]) -> str | None:
        """A sentence where the teacher has collapsed."""
        if figures["teacher_entropy"] > 0.999:
            return "the teacher says the same of every image; try a smaller dino.teacher_temperature or dino.out"
        if figures["teacher_spread"] < 0.02:
            return "the teacher has put all images into one output; try a larger dino.centre_momentum or temperature"
        return None


def _temperatures(chosen: settings.Dino, steps: int, epochs: int) -> Tensor:
    """The teacher's temperature at each step [steps]: a straight line over the first epochs, then flat."""
    last = chosen.teacher_temperature
    first = last if chosen.first_teacher_temperature is None else chosen.first_teacher_temperature
    warmup = round(chosen.temperature_epochs * steps / epochs)
    return last + (first - last) * (1 - torch.arange(steps) / max(warmup, 1)).clamp(min=0)


@contextmanager
def frozen_statistics(module: nn.Module) -> Iterator[None]:
    """Batch norm goes by the batch's statistics, as in training, without moving the running ones: what small or turned
    views look like must not enter the statistics that features are read with."""
    norms = [m for m in module.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    before = [norm.momentum for norm in norms]
    for norm in norms:
        norm.momentum = 0.0
    try:
        yield
    finally:
        for norm, momentum in zip(norms, before, strict=True):
            norm.momentum = momentum
