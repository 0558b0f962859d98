"""What a method gives the engine to train: a Stage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from newfound.config.settings import PlanSettings
from newfound.data.store import ImageStore
from newfound.engine.sampler import Sampler

if TYPE_CHECKING:
    from newfound.engine.loop import Engine


class Views(Protocol):
    """Random views of images, with the randomness apart from the arithmetic."""

    def draw(self, generator: torch.Generator, n: int, t: Tensor) -> dict[str, Tensor]:
        """Random parameters for ``n`` images at step ``t``: the only place with random numbers."""

    def apply(self, images: Tensor, parameters: dict[str, Tensor]) -> Any:
        """The views of uint8 images [n, C, H, W] under those parameters: pure."""


@dataclass(frozen=True)
class Batch:
    """What a step is given: ``views`` as Views.apply made them, labels [n] (UNKNOWN where none), indices [n].

    The first ``n_known`` images are labelled, the others are not.
    """

    views: Any
    labels: Tensor
    index: Tensor
    n_known: int


class Stage(nn.Module):
    """A stretch of training. Its networks are sub-modules and whatever else it remembers is a buffer, so that its
    ``state_dict`` is all a checkpoint needs.

    ``step`` and ``after_step`` have fixed shapes and never wait for the device, so that they can be captured as one
    graph; ``t`` is the number of the step as a device tensor. ``before_epoch`` runs outside the graph.
    """

    name: str
    plan: PlanSettings
    sampler: Sampler
    views: Views
    inputs: ImageStore | None = None
    """What batches are taken of instead of the training images, row by row: features, where the network is frozen."""

    @property
    def settings_key(self) -> str:
        """The name of the plan in the method's settings."""
        return self.name

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Groups for the optimiser; "lr_scale" multiplies the plan's learning rate, which is 0 for "frozen_epochs"."""
        return decay_groups(self, self.plan)

    def step(self, batch: Batch, t: Tensor) -> dict[str, Tensor]:
        """Scalars to log, of which "loss" is minimised."""
        raise TypeError(f"{type(self).__name__} does not define its step")

    def after_step(self, t: Tensor) -> None:
        """Whatever follows the optimiser: moving averages, queues, prototypes."""

    def before_epoch(self, epoch: int, engine: Engine) -> None:
        """Whatever needs a look at all images: new pseudo labels, new targets."""

    def snapshot(self, rows: np.ndarray, engine: Engine) -> Tensor | None:
        """Features [n, D] of the training images at ``rows`` [n] as they are now; None where the stage has none."""
        encoder: nn.Module | None = getattr(self, "encoder", None)
        return None if encoder is None else engine.features(encoder, engine.train_images.take(rows), title="")

    def warning(self, figures: dict[str, float]) -> str | None:
        """What to tell the person if the figures just logged show that training goes wrong; told once a stage, when
        two lines in a row do."""
        return None


def decay_groups(module: nn.Module, plan: PlanSettings, leave_out: Sequence[Tensor] = ()) -> list[dict[str, Any]]:
    """The module's parameters; vectors (biases, batch-norm scales) apart where the plan spares them the decay."""
    parameters = [p for p in module.parameters() if p.requires_grad and not any(p is other for other in leave_out)]
    matrices = [p for p in parameters if plan.decay_vectors or p.ndim > 1]
    vectors = [p for p in parameters if not (plan.decay_vectors or p.ndim > 1)]
    groups = [{"params": matrices, "weight_decay": plan.weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    return [group for group in groups if group["params"]]
