"""The settings that several methods share. A method's own are in its folder or file under newfound/methods."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

from newfound.errors import UserError

MAX_COUNT = 10**6
"""Of whatever is counted: epochs, images in a batch, steps between two lines."""


def number(default: float | None, low: float, high: float = math.inf) -> Any:
    """A field with a default and a closed range."""
    return field(default=default, metadata={"range": (low, high)})


def require_share(name: str, value: tuple[float, ...] | None) -> None:
    """The smallest and the largest part of an image that a view may show."""
    if value is not None and not (len(value) == 2 and 0 < value[0] <= value[1] <= 1):
        raise UserError(f"{name} is {list(value)}; it has to be two numbers above 0 and up to 1, the smaller one first")


def require_three(name: str, value: tuple[float, ...] | None) -> None:
    """The probabilities of what happens to the first whole, the second whole, and the extra views."""
    if value is not None and not (len(value) == 3 and 0 <= min(value) <= max(value) <= 1):
        raise UserError(f"{name} is {list(value)}; it has to be three probabilities, from 0 to 1")


@dataclass(frozen=True)
class DataSettings:
    """How images are laid before a network."""

    size: int = number(32, 8, 1024)
    """Width and height in pixels that folders of images are brought to; data sets of fixed size ignore it."""


@dataclass(frozen=True)
class CropSettings:
    """The views a supervised stage trains on: a random crop after padding, and a mirror image half of the time."""

    pad: int = number(4, 0, 64)
    flip: bool = True
    fill: int = number(0, 0, 255)
    """The grey level of the padding: that of the background."""


@dataclass(frozen=True)
class PlanSettings:
    """How long and with which optimiser a stage trains."""

    epochs: int = number(100, 1, MAX_COUNT)
    batch: int = number(256, 2, MAX_COUNT)
    optimiser: Literal["sgd", "adam", "adamw"] = "sgd"
    lr: float = number(0.1, 0)
    momentum: float = number(0.9, 0, 1)
    nesterov: bool = False
    weight_decay: float = number(1e-4, 0)
    decay_vectors: bool = True
    """Whether biases and batch-norm scales decay too."""
    clip: float = number(0.0, 0)
    """Largest norm of the whole gradient; 0 leaves it alone."""
    schedule: Literal["cosine", "steps", "constant"] = "cosine"
    warmup_epochs: float = number(0.0, 0, MAX_COUNT)
    final_lr: float = number(0.0, 0)
    milestones: tuple[float, ...] = ()
    """Epochs after which the schedule "steps" multiplies the rate by ``decay``."""
    decay: float = number(0.1, 0, 1)

    def __post_init__(self) -> None:
        if self.optimiser == "sgd" and self.nesterov and not self.momentum:
            raise UserError("nesterov needs a momentum above 0")
        if min(self.milestones, default=0) < 0:
            raise UserError(f"milestones is {list(self.milestones)}; they are epochs, from 0 on")


@dataclass(frozen=True)
class ClusterSettings:
    """How features are clustered."""

    algorithm: Literal["kmeans", "spectral", "uneven"] = "kmeans"
    starts: int = number(20, 1, 10_000)
    neighbours: int = number(10, 1, MAX_COUNT)
    """Neighbours in the graph of spectral clustering."""
    normalise: bool = False
    """Whether features are projected to the unit sphere first."""


@dataclass(frozen=True)
class MultiViewSettings:
    """Two whole ("global") views and several extra ones, local (natural) or rotated (symbolic).

    None leaves a choice to the domain.
    """

    domain: Literal["natural", "symbolic"] = "natural"
    extra: int = number(6, 0, 16)
    extra_size: int | None = number(None, 4, 1024)
    appearance: bool = True
    """Colours, grey, blur, solarisation, equalisation."""
    geometric: bool | None = None
    """Crops and mirror images."""
    rotation: float | None = number(None, 0, 180)
    """Restricted rotation: the largest angle, in degrees, by which extra views are turned."""
    affine: bool | None = None
    """A small shift, zoom and shear of every view."""
    whole_scale: tuple[float, ...] | None = None
    extra_scale: tuple[float, ...] | None = None
    padded: float | None = number(None, 0, 1)
    """The probability that a whole view is a crop after padding by 4 pixels, instead of a part enlarged."""
    jitter_probability: tuple[float, ...] | None = None
    """The probability of other colours, and below of blur and so on, in the first, the second and the extra views."""
    grey: float | None = number(None, 0, 1)
    blur: tuple[float, ...] | None = None
    solarise: tuple[float, ...] | None = None
    random_threshold: bool | None = None
    """Whether a view is solarised from a random level on, instead of one half."""
    equalise: tuple[float, ...] | None = None
    fill: int | None = number(None, 0, 255)

    def __post_init__(self) -> None:
        require_share("whole_scale", self.whole_scale)
        require_share("extra_scale", self.extra_scale)
        for name in ("jitter_probability", "blur", "solarise", "equalise"):
            require_three(name, getattr(self, name))


@dataclass(frozen=True)
class Settings:
    """What every method has."""

    method: str = ""
    network: str = "resnet18"
    data: DataSettings = DataSettings()
    log_every: int = number(10, 1, MAX_COUNT)
    """Steps between two lines of metrics.jsonl, and between two host synchronisations."""
    checkpoint_every: int = number(1, 1, MAX_COUNT)
    """Epochs between two checkpoints."""
