"""The settings of APL on features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from newfound.config.settings import MAX_COUNT, ClusterSettings, PlanSettings, number
from newfound.methods.parts.backbone import WhitenedSettings


@dataclass(frozen=True)
class TuningSettings(PlanSettings):
    """Whether the last blocks of the network learn too, after the head has, for how long and how fast."""

    blocks: int = number(0, 0, 1000)
    """How many; 0 leaves the network as it is."""
    flip: bool = True
    """Whether half of the views are mirror images; they are not for symbols."""
    epochs: int = number(5, 1, MAX_COUNT)
    batch: int = number(64, 1, MAX_COUNT)
    optimiser: Literal["sgd", "adam", "adamw"] = "adamw"
    lr: float = number(3e-4, 0)
    weight_decay: float = number(0.0, 0)


@dataclass(frozen=True)
class FeatureSettings(WhitenedSettings):
    """APL on the features of a network that others have trained, which stays as it is unless its last blocks are tuned;
    or on given features."""

    method: str = "apl-features"
    dropout: float = number(0.5, 0, 0.95)
    """Of the network's features, in training."""
    epsilon: float = number(0.1, 1e-4)
    """Temperature of the soft labels, which prototypes give the unlabelled images anew before every epoch."""
    labelled_share: float = number(0.0, 0, 0.99)
    """Labelled images in a batch; 0 takes their share in the collection."""
    stage2: PlanSettings = PlanSettings(epochs=20, batch=256, optimiser="adamw", lr=1e-3, weight_decay=0.0)
    tune: TuningSettings = TuningSettings()
    cluster: ClusterSettings = ClusterSettings(algorithm="uneven", normalise=True)

    def left_out(self) -> dict[str, str]:
        return {} if self.tune.blocks else {"tune": "tune.blocks is 0"}
