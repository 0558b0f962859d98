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
    """Pixels of padding on each side before the crop."""
    flip: bool = True
    """Whether half of the views are mirror images."""
    fill: int = number(0, 0, 255)
    """The grey level of the padding: that of the background."""


@dataclass(frozen=True)
class PlanSettings:
    """How long and with which optimiser a stage trains."""

    epochs: int = number(100, 1, MAX_COUNT)
    """Passes over the training images."""
    batch: int = number(256, 2, MAX_COUNT)
    """Images in a batch."""
    optimiser: Literal["sgd", "adam", "adamw"] = "sgd"
    """The optimiser."""
    lr: float = number(0.1, 0)
    """The highest learning rate."""
    momentum: float = number(0.9, 0, 1)
    """Momentum of sgd."""
    nesterov: bool = False
    """Whether sgd takes Nesterov's momentum."""
    weight_decay: float = number(1e-4, 0)
    """Weight decay of the optimiser."""
    decay_vectors: bool = True
    """Whether biases and batch-norm scales decay too."""
    clip: float = number(0.0, 0)
    """Largest norm of the whole gradient; 0 leaves it alone."""
    schedule: Literal["cosine", "steps", "constant"] = "cosine"
    """How the learning rate falls after the warm-up."""
    warmup_epochs: float = number(0.0, 0, MAX_COUNT)
    """Epochs in which the learning rate rises from 0."""
    final_lr: float = number(0.0, 0)
    """The learning rate at the end of the schedule "cosine"."""
    milestones: tuple[float, ...] = ()
    """Epochs after which the schedule "steps" multiplies the rate by ``decay``."""
    decay: float = number(0.1, 0, 1)
    """The factor of the schedule "steps"."""

    def __post_init__(self) -> None:
        if self.optimiser == "sgd" and self.nesterov and not self.momentum:
            raise UserError("nesterov needs a momentum above 0")
        if min(self.milestones, default=0) < 0:
            raise UserError(f"milestones is {list(self.milestones)}; they are epochs, from 0 on")


@dataclass(frozen=True)
class ClusterSettings:
    """How features are clustered."""

    algorithm: Literal["kmeans", "spectral", "uneven"] = "kmeans"
    """"uneven" tries a consensus of k-means and merged small clusters, and keeps the better one."""
    starts: int = number(20, 1, 10_000)
    """Random starts of k-means; the best is kept."""
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
    """What the images are: photographs and the like, or characters."""
    extra: int = number(6, 0, 16)
    """Extra views of an image."""
    extra_size: int | None = number(None, 4, 1024)
    """Pixels of an extra view."""
    appearance: bool = True
    """Colours, grey, blur, solarisation, equalisation."""
    geometric: bool | None = None
    """Crops and mirror images."""
    rotation: float | None = number(None, 0, 180)
    """Restricted rotation: the largest angle, in degrees, by which extra views are turned."""
    affine: bool | None = None
    """A small shift, zoom and shear of every view."""
    whole_scale: tuple[float, ...] | None = None
    """The smallest and the largest share of the image that a whole view shows."""
    extra_scale: tuple[float, ...] | None = None
    """The same for an extra view."""
    padded: float | None = number(None, 0, 1)
    """The probability that a whole view is a crop after padding by 4 pixels, instead of a part enlarged."""
    jitter_probability: tuple[float, ...] | None = None
    """The probability of other colours, and below of blur and so on, in the first, the second and the extra views."""
    grey: float | None = number(None, 0, 1)
    """The probability that a view loses its colours."""
    blur: tuple[float, ...] | None = None
    """The probability of blur."""
    solarise: tuple[float, ...] | None = None
    """The probability of solarisation."""
    random_threshold: bool | None = None
    """Whether a view is solarised from a random level on, instead of one half."""
    equalise: tuple[float, ...] | None = None
    """The probability of histogram equalisation."""
    fill: int | None = number(None, 0, 255)
    """The grey level around the image: that of the background."""

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
    """The network that is trained, such as resnet18, vgg6 or tiny."""
    data: DataSettings = DataSettings()
    log_every: int = number(10, 1, MAX_COUNT)
    """Steps between two lines of metrics.jsonl, and between two host synchronisations."""
    checkpoint_every: int = number(1, 1, MAX_COUNT)
    """Epochs between two checkpoints."""

    def left_out(self) -> dict[str, str]:
        """The plans that no stage trains by, with the setting that leaves each out: {"tune": "tune.blocks is 0"}."""
        return {}
