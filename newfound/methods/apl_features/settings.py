"""The settings of APL on features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from newfound.config.settings import (
    MAX_COUNT,
    ClusterSettings,
    DataSettings,
    PlanSettings,
    Settings,
    number,
)
from newfound.errors import UserError


@dataclass(frozen=True)
class WhiteningSettings:
    """How the known categories say which variation of the features to ignore."""

    shrinkage: float = number(0.5, 0, 1)
    """How far their covariance moves to the identity of the same mean eigenvalue."""
    dimension: int = number(64, 1, 2**16)
    """Of the whitened features, by principal components."""


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
class FeatureSettings(Settings):
    """APL on the features of a network that others have trained, which stays as it is unless its last blocks are tuned;
    or on given features."""

    method: str = "apl-features"
    network: str = "efficientnet-lite0"
    weights: str = ""
    """A safetensors file of the network's weights; "" where its name says which they are."""
    digest: str = ""
    """Of the weights, so that a run goes on with those it began with; "" takes what there is."""
    mean: tuple[float, ...] = ()
    """Mean of the three channels, in 0 to 1, as the network was trained; none takes what is known of it."""
    deviation: tuple[float, ...] = ()
    """Of the three channels in 0 to 1, as the network was trained with; none takes what is known of the network."""
    data: DataSettings = DataSettings(size=224)
    whitening: WhiteningSettings = WhiteningSettings()
    dropout: float = number(0.5, 0, 0.95)
    """Of the network's features, in training."""
    epsilon: float = number(0.1, 1e-4)
    """Temperature of the soft labels, which prototypes give the unlabelled images anew before every epoch."""
    labelled_share: float = number(0.0, 0, 0.99)
    """Labelled images in a batch; 0 takes their share in the collection."""
    stage2: PlanSettings = PlanSettings(epochs=20, batch=256, optimiser="adamw", lr=1e-3, weight_decay=0.0)
    tune: TuningSettings = TuningSettings()
    cluster: ClusterSettings = ClusterSettings(algorithm="uneven", normalise=True)

    def __post_init__(self) -> None:
        if len(self.mean) not in (0, 3) or len(self.deviation) not in (0, 3) or min(self.deviation, default=1) <= 0:
            raise UserError("mean and deviation are three numbers each, for red, green and blue, or none")
