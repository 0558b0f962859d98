"""Schedules are arrays indexed by the step, made before the first one."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from newfound.config.settings import PlanSettings


def learning_rates(plan: PlanSettings, steps_per_epoch: int) -> np.ndarray:
    """The learning rate of every step, float32 [epochs * steps_per_epoch]: linear warm-up, then the plan's schedule."""
    total = plan.epochs * steps_per_epoch
    step = np.arange(total)
    warmup = min(round(plan.warmup_epochs * steps_per_epoch), total)
    if plan.schedule == "cosine":
        rates = cosine(plan.lr, plan.final_lr, total - warmup)
    elif plan.schedule == "steps":
        passed = [step[warmup:] >= round(m * steps_per_epoch) for m in plan.milestones]
        rates = plan.lr * plan.decay ** np.sum(passed, axis=0, dtype=np.float64) * np.ones(total - warmup)
    else:
        rates = np.full(total - warmup, plan.lr)
    rising = plan.lr * np.arange(1, warmup + 1) / max(warmup, 1)
    return np.concatenate([rising, rates]).astype(np.float32)


def value_at(schedule: Tensor, t: Tensor) -> Tensor:
    """The schedule's value at step ``t``, both on the device; indexing by ``t`` would make the host wait for it."""
    return schedule.index_select(0, t[None])[0]


def cosine(first: float, last: float, steps: int) -> np.ndarray:
    """Half a cosine from ``first`` at step 0 towards ``last``, which step ``steps`` would have; float64 [steps]."""
    return last + (first - last) * 0.5 * (1 + np.cos(np.pi * np.arange(steps) / max(steps, 1)))


def ramp_up(weight: float, rising: float, epochs: int, steps_per_epoch: int) -> np.ndarray:
    """The weight of every step of a term that is not to count at once: weight * exp(-5 (1 - epoch / rising)²) up to the
    epoch ``rising``, and ``weight`` from there on; float64 [epochs * steps_per_epoch]. 0 epochs of rising: at once."""
    share = np.minimum(np.arange(epochs) / rising, 1.0) if rising else np.ones(epochs)
    return np.repeat(weight * np.exp(-5 * (1 - share) ** 2), steps_per_epoch)
