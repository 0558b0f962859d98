"""Every setting there is: the one source of names for recipes (YAML), --set and the estimator's settings=."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

from newfound.errors import UserError

MOST = 10**6
"""Of whatever is counted: epochs, images in a batch, steps between two lines."""


def number(default: float | None, low: float, high: float = math.inf) -> Any:
    """A field with a default and a closed range."""
    return field(default=default, metadata={"range": (low, high)})


def require_share(name: str, value: tuple[float, ...] | None) -> None:
    """The smallest and the largest part of an image that a view may show."""
    if value is not None and not (len(value) == 2 and 0 < value[0] <= value[1] <= 1):
        raise UserError(f"{name} is {list(value)}; it has to be two numbers above 0 and up to 1, the smaller one first")


@dataclass(frozen=True)
class Data:
    """How images are laid before a network."""

    size: int = number(32, 8, 1024)
    """Width and height in pixels that folders of images are brought to; data sets of fixed size ignore it."""


@dataclass(frozen=True)
class Views:
    """The views a supervised stage trains on: a random crop after padding, and a mirror image half of the time."""

    pad: int = number(4, 0, 64)
    flip: bool = True
    fill: int = number(0, 0, 255)
    """The grey level of the padding: that of the background."""


@dataclass(frozen=True)
class Plan:
    """How long and with which optimiser a stage trains."""

    epochs: int = number(100, 1, MOST)
    batch: int = number(256, 2, MOST)
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
    warmup_epochs: float = number(0.0, 0, MOST)
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
class Cluster:
    """How features are clustered."""

    algorithm: Literal["kmeans", "spectral", "consensus", "uneven"] = "kmeans"
    starts: int = number(20, 1, 10_000)
    neighbours: int = number(10, 1, MOST)
    """Neighbours in the graph of spectral clustering."""
    normalise: bool = False
    """Whether features are projected to the unit sphere first."""


@dataclass(frozen=True)
class Settings:
    """What every method has."""

    method: str = ""
    network: str = "resnet18"
    data: Data = Data()
    log_every: int = number(10, 1, MOST)
    """Steps between two lines of metrics.jsonl, and between two host synchronisations."""
    checkpoint_every: int = number(1, 1, MOST)
    """Epochs between two checkpoints."""


@dataclass(frozen=True)
class KMeansSettings(Settings):
    """The paper's k-means row: train a classifier on the labelled images, cluster the features of the others."""

    method: str = "kmeans"
    views: Views = Views()
    stage1: Plan = Plan(epochs=200, batch=128)
    cluster: Cluster = Cluster()


@dataclass(frozen=True)
class MultiView:
    """The views of stage I: two whole ("global") ones and several extra ones, local (natural) or rotated (symbolic).

    None leaves a choice to the domain.
    """

    domain: Literal["natural", "symbolic"] = "natural"
    extra: int = number(6, 0, 16)
    extra_size: int | None = number(None, 4, 1024)
    appearance: bool = True
    """Colours, grey, blur, solarisation."""
    geometric: bool | None = None
    """Crops and mirror images."""
    rotation: float | None = number(None, 0, 180)
    """Restricted rotation: the largest angle, in degrees, by which extra views are turned."""
    affine: bool | None = None
    """A small shift, zoom and shear of every view."""
    whole_scale: tuple[float, ...] | None = None
    extra_scale: tuple[float, ...] | None = None
    flip: float | None = number(None, 0, 1)
    blur: tuple[float, ...] | None = None
    solarise: tuple[float, ...] | None = None
    fill: int | None = number(None, 0, 255)

    def __post_init__(self) -> None:
        require_share("whole_scale", self.whole_scale)
        require_share("extra_scale", self.extra_scale)
        for name in ("blur", "solarise"):
            value = getattr(self, name)
            if value is not None and not (len(value) == 3 and 0 <= min(value) <= max(value) <= 1):
                raise UserError(f"{name} is {list(value)}; it has to be three probabilities, from 0 to 1")


@dataclass(frozen=True)
class Dino:
    """Instance discrimination by self-distillation."""

    weight: float = number(1.0, 0)
    hidden: int = number(2048, 1, 2**16)
    bottleneck: int = number(256, 1, 2**16)
    out: int = number(4096, 2, 2**20)
    norm: bool = True
    """Batch norm in the head."""
    student_temperature: float = number(0.1, 1e-3)
    teacher_temperature: float = number(0.04, 1e-3)
    first_teacher_temperature: float | None = number(None, 1e-3)
    """Where the teacher's temperature begins; over ``temperature_epochs`` it goes to ``teacher_temperature``."""
    temperature_epochs: float = number(0.0, 0)
    centre_momentum: float = number(0.9, 0, 1)
    momentum: float = number(0.996, 0, 1)
    """Of the teacher, at the first step; it rises to 1 along a cosine."""
    frozen_epochs: int = number(1, 0, MOST)
    """Epochs for which the head's last layer does not learn."""


@dataclass(frozen=True)
class Prototypes:
    """Category discrimination: online prototypes and the labels they give."""

    momentum: float = number(0.99, 0, 1)
    update: Literal["batch_mean", "per_sample"] = "batch_mean"
    follow: Literal["hard", "soft"] = "hard"
    """Whether a prototype follows the images whose largest label it has, or all by the share in their soft label."""
    similarity: Literal["cosine", "euclidean", "dot"] = "cosine"
    balance: Literal["bank", "batch", "first_of_epoch", "once", "never"] = "bank"
    """Over what labels are balanced: a bank of the newest features of all unlabelled images, each batch; or only at the
    first step of each epoch or of the run; or not at all."""
    newest: int = number(0, 0, MOST)
    """Steps for which a feature in the bank counts when labels are balanced over it; 0 is for ever."""
    first: Literal["similar", "random"] = "similar"
    """What a first step alone balances: the prototypes' own labels, or a random label that each image keeps."""
    soft: bool = True
    epsilon: float = number(0.05, 1e-4)
    final_epsilon: float | None = number(None, 1e-4)
    """Where the temperature of the labels ends, along a cosine over the run; none leaves it at ``epsilon``."""
    rounds: int = number(3, 1, 1000)
    separation: float = number(0.1, 0)
    """Weight of the pair-wise angular separation."""
    separation_of: Literal["straight_through", "ema", "classifier", "prototypes"] = "straight_through"
    """What the separation's gradient reaches: the features, through the batch's class means, whole or by the share they
    have in the moving average; the classifier's novel rows; or the prototypes themselves, by a plain gradient step."""
    features: Literal["student", "teacher"] = "student"
    labels_from: Literal["mean", "first", "own", "swapped"] = "mean"
    """Which feature labels an image: the mean of its two whole views', the first view's, or, each view by itself, its
    own or the other view's."""
    novel_weight: float = number(1.0, 0)
    """Of the cross-entropy of unlabelled images; the mean is over all images as before."""
    begin: float = number(0.0, 0, 1)
    """Share of stage I's epochs after which prototypes and their labels begin, as clusters of the features; until then
    the encoder learns from instances and labelled images alone. 0 begins at once, with the classifier's rows."""

    def __post_init__(self) -> None:
        if self.first == "random" and self.balance not in ("first_of_epoch", "once"):
            raise UserError(f"first=random needs a balance of first_of_epoch or once, not {self.balance}")
        if self.newest and self.balance != "bank":
            raise UserError(f"newest={self.newest} needs a balance of bank, not {self.balance}")


@dataclass(frozen=True)
class Classifier:
    """The classifier over old and new categories."""

    kind: Literal["linear", "cosine"] = "linear"
    temperature: float = number(0.1, 1e-3)


@dataclass(frozen=True)
class SelfTraining:
    """Stage II beside its plan, whose epochs are those of one iteration; no iteration leaves stage II out."""

    iterations: int = number(2, 0, 1000)
    labels: Literal["offline", "online"] = "offline"
    """Where the first pseudo labels come from: clusters of the features, or the online prototypes."""
    rectify: Literal["cosine", "relative", "confident", "none"] = "cosine"
    """An unlabelled image's weight: its cosine to its label's prototype, that divided by its category's mean; 1 for the
    half of its category that is nearer to its prototype than to any other by most, and 0 for the other half; or 1."""
    rectify_each: Literal["iteration", "step"] = "iteration"
    """Whether the cosine is the plain image's, read once an iteration, or each view's, as the network sees it now."""
    backbone_lr: float = number(0.1, 0)
    """The encoder's learning rate, in units of the classifier's."""
    views: Literal["whole", "crop"] = "whole"
    start: Literal["random", "prototypes"] = "random"
    """How a new classifier begins: at random, or as the prototypes, so that it says at once what they do."""
    fresh_head: bool = False
    """Whether each iteration begins with a new classifier."""

    def __post_init__(self) -> None:
        if self.rectify_each == "step" and self.rectify != "cosine":
            raise UserError(f"rectify_each=step needs rectify=cosine, not {self.rectify}")


@dataclass(frozen=True)
class Refinement(Plan):
    """Between the stages and not in the paper: each view of an unlabelled image predicts what the classifier says of
    the other, balanced."""

    epochs: int = number(0, 0, MOST)
    """0 leaves it out."""
    warmup_epochs: float = number(3.0, 0, MOST)
    backbone_lr: float = number(1.0, 0)
    """The encoder's learning rate, in units of the classifier's."""
    temperature: float = number(0.5, 1e-4)
    """Of the labels, in units of the classifier's logits: below 1 they are surer than what they are made from."""
    rounds: int = number(3, 1, 1000)
    """Of Sinkhorn's iterations."""
    whole_scale: tuple[float, ...] | None = None
    """How much of an image its views show, at least and at most; none takes stage I's whole views."""
    teacher: float = number(0.0, 0, 1)
    """Momentum of a teacher, the moving average of encoder and classifier, whose word the labels are; 0 is
    without one: the network labels for itself."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_share("whole_scale", self.whole_scale)


@dataclass(frozen=True)
class APLSettings(Settings):
    """The paper's method: prototypical representation learning, then prototypical self-training; a refinement of ours
    may come between them."""

    method: str = "apl"
    dimension: int = number(0, 0, 2**16)
    """Of features and prototypes, by a linear layer after the network; 0 takes the network's own."""
    instance: bool = True
    category: bool = True
    online: bool = True
    """Online prototypes; without them category discrimination is cross-entropy on labelled images alone."""
    category_weight: float = number(1.0, 0)
    """Of the cross-entropy over old and new categories in stage I."""
    readout: Literal["student", "teacher"] = "student"
    """Whose features are read after stage I, and who goes on into stage II."""
    refresh_norm: bool = False
    """Whether batch-norm statistics are estimated anew, on un-augmented images, before they are read."""
    flip_average: bool = False
    """Whether features are read as the mean over an image and its mirror image."""
    views: MultiView = MultiView()
    crop: Views = Views()
    dino: Dino = Dino()
    prototypes: Prototypes = Prototypes()
    classifier: Classifier = Classifier()
    labelled_share: float = number(0.0, 0, 0.99)
    """Labelled images in a batch; 0 takes their share in the collection."""
    stage1: Plan = Plan(
        epochs=100, batch=256, optimiser="adamw", lr=5e-4, weight_decay=0.04, decay_vectors=False, clip=3.0,
        warmup_epochs=10, final_lr=1e-6,
    )  # fmt: skip
    stage2: Plan = Plan(epochs=2, batch=256, lr=0.05)
    selftraining: SelfTraining = SelfTraining()
    refinement: Refinement = Refinement()
    cluster: Cluster = Cluster(normalise=True)

    def __post_init__(self) -> None:
        if not (self.instance or self.category):
            raise UserError("instance=false and category=false leave stage I nothing to learn: set one of them to true")
        if self.refinement.epochs and self.selftraining.labels == "online":
            raise UserError(
                "selftraining.labels=online takes stage I's prototypes, which are outdated after a refinement: set "
                "refinement.epochs=0 too"
            )


@dataclass(frozen=True)
class Whitening:
    """How the known categories say which variation of the features to ignore."""

    shrinkage: float = number(0.5, 0, 1)
    """How far their covariance moves to the identity of the same mean eigenvalue."""
    dimension: int = number(64, 1, 2**16)
    """Of the whitened features, by principal components."""


@dataclass(frozen=True)
class SoftLabels:
    """Labels of the unlabelled images, drawn from the prototypes anew before every epoch."""

    balanced: bool = False
    """Whether Sinkhorn's iterations draw the categories to equal shares."""
    epsilon: float = number(0.1, 1e-4)
    """Temperature of the labels: cosines are divided by it."""
    rounds: int = number(3, 1, 1000)
    """Of Sinkhorn's iterations."""
    rectify: Literal["cosine", "relative", "none"] = "cosine"
    """An unlabelled image's weight: its cosine to its label's prototype, that divided by its category's mean, or 1."""


@dataclass(frozen=True)
class Tuning(Plan):
    """Whether the last blocks of the network learn too, after the head has, for how long and how fast."""

    blocks: int = number(0, 0, 1000)
    """How many; 0 leaves the network as it is."""
    flip: bool = True
    """Whether half of the views are mirror images; they are not for symbols."""
    epochs: int = number(5, 1, MOST)
    batch: int = number(64, 1, MOST)
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
    deviation: tuple[float, ...] = ()
    """Of the three channels in 0 to 1, as the network was trained with; none takes what is known of the network."""
    data: Data = Data(size=224)
    whitening: Whitening = Whitening()
    temperature: float = number(0.1, 1e-3)
    """Of the cosine classifier."""
    dropout: float = number(0.5, 0, 0.95)
    """Of the network's features, in training."""
    labels: SoftLabels = SoftLabels()
    labelled_share: float = number(0.0, 0, 0.99)
    """Labelled images in a batch; 0 takes their share in the collection."""
    stage2: Plan = Plan(epochs=20, batch=256, optimiser="adamw", lr=1e-3, weight_decay=0.0)
    tune: Tuning = Tuning()
    cluster: Cluster = Cluster(algorithm="uneven", normalise=True)

    def __post_init__(self) -> None:
        if len(self.mean) not in (0, 3) or len(self.deviation) not in (0, 3) or min(self.deviation, default=1) <= 0:
            raise UserError("mean and deviation are three numbers each, for red, green and blue, or none")
