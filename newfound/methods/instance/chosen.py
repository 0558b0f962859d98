"""The self-supervised learners by their names."""

from __future__ import annotations

from typing import Any, Literal

from newfound.config.settings import Settings
from newfound.methods.instance.base import InstanceLearner
from newfound.methods.instance.dino import Dino
from newfound.methods.instance.moco import MoCo
from newfound.methods.instance.rotation import Rotation
from newfound.methods.instance.simclr import SimCLR
from newfound.model import Encoder

Name = Literal["dino", "simclr", "moco", "mocov2", "rotation"]

LEARNERS: dict[Name, type[InstanceLearner]] = {
    "dino": Dino,
    "simclr": SimCLR,
    "moco": MoCo,
    "mocov2": MoCo,
    "rotation": Rotation,
}


def make_learner(name: Name, encoder: Encoder, settings: Settings, steps: int) -> InstanceLearner:
    """The learner of that name, for ``steps`` steps of the encoder, by the block of the settings that has its name."""
    options: Any = getattr(settings, name, None)  # rotation has none
    return LEARNERS[name](encoder, encoder.width, options, steps)
