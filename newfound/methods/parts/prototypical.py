"""The settings of the paper's two stages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from newfound.config.settings import ClusterSettings, MultiViewSettings, PlanSettings, Settings, number
from newfound.errors import UserError
from newfound.methods.instance.dino import DinoSettings
from newfound.methods.instance.moco import MoCoSettings, MoCoV2Settings
from newfound.methods.instance.simclr import SimCLRSettings


@dataclass(frozen=True)
class InstanceSettings:
    """Instance discrimination: who does it. Each learner has settings under its own name."""

    learner: Literal["dino", "simclr", "moco", "mocov2", "rotation", "none"] = "dino"
    """The self-supervised learner; "none" leaves instance discrimination out."""


@dataclass(frozen=True)
class PrototypeSettings:
    """Category discrimination: online prototypes and the labels they give."""

    momentum: float = number(0.99, 0, 1)
    """How much of itself a prototype keeps at each update."""
    update: Literal["batch_mean", "per_sample"] = "batch_mean"
    """Whether a prototype moves once a batch, to the mean of its images, or image by image."""
    follow: Literal["hard", "soft"] = "hard"
    """Whether a prototype follows the images whose largest label it has, or all by the share in their soft label."""
    similarity: Literal["cosine", "euclidean", "dot"] = "cosine"
    """How images and prototypes are compared."""
    balance: Literal["bank", "batch", "first_of_epoch"] = "bank"
    """Over what labels are balanced: a bank of the newest features of all unlabelled images, each batch, or only the
    first batch of each epoch."""
    soft: bool = True
    """Whether an image's label is a distribution over categories or one category."""
    epsilon: float = number(0.05, 1e-4)
    """Temperature of the labels."""
    rounds: int = number(3, 1, 1000)
    """Iterations of Sinkhorn's algorithm, which balances the labels."""
    separation: float = number(0.1, 0)
    """Weight of the pair-wise angular separation."""
    labels_from: Literal["mean", "swapped"] = "mean"
    """Which feature labels an image: the mean of its two whole views', or, for each view by itself, the other's."""


@dataclass(frozen=True)
class SelfTrainingSettings:
    """Stage II beside its plan, whose epochs are those of one iteration; no iteration leaves stage II out."""

    iterations: int = number(2, 0, 1000)
    """How often labels are made anew and trained on; 0 leaves stage II out."""
    labels: Literal["offline", "online"] = "offline"
    """Where the first pseudo labels come from: clusters of the features, or what has learned along with them, the
    online prototypes of APL and the heads of apl-plus."""
    backbone_lr: float = number(0.1, 0)
    """The encoder's learning rate, in units of the classifier's."""
    start: Literal["random", "prototypes"] = "random"
    """How the classifier begins: at random, or as the prototypes."""


@dataclass(frozen=True)
class PrototypicalSettings(Settings):
    """Prototypical representation learning, then prototypical self-training."""

    dimension: int = number(0, 0, 2**16)
    """Of features and prototypes, by a linear layer after the network; 0 takes the network's own."""
    instance: InstanceSettings = InstanceSettings()
    category: bool = True
    """Category discrimination in stage I."""
    online: bool = True
    """Online prototypes; without them category discrimination is cross-entropy on labelled images alone."""
    views: MultiViewSettings = MultiViewSettings()
    dino: DinoSettings = DinoSettings()
    simclr: SimCLRSettings = SimCLRSettings()
    moco: MoCoSettings = MoCoSettings()
    mocov2: MoCoV2Settings = MoCoV2Settings()
    prototypes: PrototypeSettings = PrototypeSettings()
    classifier: Literal["linear", "cosine"] = "linear"
    """The classifier over old and new categories."""
    labelled_share: float = number(0.0, 0, 0.99)
    """Labelled images in a batch; 0 takes their share in the collection."""
    stage1: PlanSettings = PlanSettings(
        epochs=100, batch=256, optimiser="adamw", lr=5e-4, weight_decay=0.04, decay_vectors=False, clip=3.0,
        warmup_epochs=10, final_lr=1e-6,
    )  # fmt: skip
    stage2: PlanSettings = PlanSettings(epochs=2, batch=256, lr=0.05)
    selftraining: SelfTrainingSettings = SelfTrainingSettings()
    cluster: ClusterSettings = ClusterSettings(normalise=True)

    def __post_init__(self) -> None:
        if self.instance.learner == "none" and not self.category:
            raise UserError("instance.learner=none and category=false leave stage I nothing to learn: change one")

    def left_out(self) -> dict[str, str]:
        return {} if self.selftraining.iterations else {"stage2": "selftraining.iterations is 0"}
