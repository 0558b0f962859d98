"""Optimisers with the learning rate as a device tensor, and their state as plain tensors."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from newfound.config.settings import PlanSettings

PREFIX = "optimiser."


def build_optimiser(plan: PlanSettings, groups: list[dict[str, Any]], device: torch.device) -> torch.optim.Optimizer:
    """The plan's optimiser. Each group's "lr" is a tensor on the device, to be set before every step; fused, so that
    a step is one kernel on the GPU and one pass over memory on the CPU."""
    groups = [{"lr_scale": 1.0, "frozen_epochs": 0, **group, "lr": torch.zeros((), device=device)} for group in groups]
    if plan.optimiser == "sgd":
        return torch.optim.SGD(
            groups, momentum=plan.momentum, nesterov=plan.nesterov, weight_decay=plan.weight_decay, fused=True
        )
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[plan.optimiser]
    return kind(groups, weight_decay=plan.weight_decay, fused=True, capturable=device.type == "cuda")


def pack_optimiser(optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimiser's memory, by the number of the parameter and the name of the quantity."""
    state = optimiser.state_dict()["state"]
    return {f"{PREFIX}{i}.{k}": v for i, values in state.items() for k, v in values.items() if v is not None}


def unpack_optimiser(optimiser: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """Give the optimiser back what ``pack_optimiser`` took, each tensor laid out as its parameter is."""
    parameters = [p for group in optimiser.param_groups for p in group["params"]]
    for name, value in tensors.items():
        if name.startswith(PREFIX):
            number, _, key = name[len(PREFIX) :].partition(".")
            parameter = parameters[int(number)]
            place = torch.empty_like(parameter) if value.shape == parameter.shape else torch.empty_like(value)
            optimiser.state[parameter][key] = place.to(parameter.device).copy_(value)
