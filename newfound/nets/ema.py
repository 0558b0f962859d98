"""A teacher: the moving average of a network's weights."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn


def ema_copy(*student: nn.Module) -> nn.ModuleList:
    """A copy of the modules, equal at first, that no gradient moves. Batch-norm statistics are of its own passes."""
    return copy.deepcopy(nn.ModuleList(student)).requires_grad_(False)


@torch.no_grad()
def ema_update(teacher: nn.ModuleList, *student: nn.Module, momentum: Tensor | float) -> None:
    """Move the teacher's weights towards the student's: w <- momentum w + (1 - momentum) w of the student."""
    weights: list[Tensor] = [weight for module in student for weight in module.parameters()]
    average: list[Tensor] = list(teacher.parameters())
    torch._foreach_mul_(average, momentum)
    torch._foreach_add_(average, list(torch._foreach_mul(weights, 1 - momentum)))
