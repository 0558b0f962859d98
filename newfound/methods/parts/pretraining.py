"""What many methods begin with: self-supervised training on all images, then supervised training on labelled ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from newfound import nets
from newfound.config.settings import MultiViewSettings, PlanSettings, Settings, number
from newfound.data.collection import Collection
from newfound.engine.loop import Engine
from newfound.engine.sampler import class_sampler
from newfound.engine.stage import Batch, Stage
from newfound.errors import UserError
from newfound.losses import prototypical
from newfound.methods.parts.selfsupervised import SelfSupervised
from newfound.methods.parts.supervised import Supervised
from newfound.methods.parts.views import make_views
from newfound.model import Encoder
from newfound.nets import Net
from newfound.nets.heads import LinearClassifier
from newfound.nets.thaw import thaw
from newfound.views.multiview import FirstView


@dataclass(frozen=True)
class EpisodeSettings:
    """Batches of the prototypical loss: as many images of each of some random known categories."""

    classes: int = number(20, 2, 10_000)
    """Known categories in a batch."""
    images: int = number(10, 2, 10_000)
    """Of each category in a batch."""
    support: int = number(5, 1, 10_000)
    """Of these, images whose mean is the category's prototype; the others look for theirs."""

    def __post_init__(self) -> None:
        if self.support >= self.images:
            raise UserError(
                f"support is {self.support}; it has to be below images, {self.images}, so that some are left to find it"
            )


@dataclass(frozen=True)
class SelfSupervisionSettings(Settings):
    """Self-supervised training, where wanted, before anything else is learned."""

    views: MultiViewSettings = MultiViewSettings(extra=0, appearance=False, padded=1.0)
    self_supervision: bool = False
    """Whether the network first learns from all images how they were turned (RotNet)."""
    selfsupervised: PlanSettings = PlanSettings(
        epochs=200, batch=128, nesterov=True, weight_decay=5e-4, schedule="steps", milestones=(60, 120, 160), decay=0.2
    )
    tuned_blocks: int = number(2, 1, 1000)
    """Blocks, the last ones, that learn after self-supervision. All learn where there was none."""

    def left_out(self) -> dict[str, str]:
        return {} if self.self_supervision else {"selfsupervised": "self_supervision is false"}


@dataclass(frozen=True)
class PretrainedSettings(SelfSupervisionSettings):
    """Self-supervised and supervised training, before a method begins with discovery."""

    supervised: PlanSettings = PlanSettings(epochs=100, batch=128)
    supervised_loss: Literal["cross_entropy", "prototypical"] = "cross_entropy"
    """What supervised training minimises; the prototypical loss takes batches as ``episodes`` say."""
    episodes: EpisodeSettings = EpisodeSettings()


class Episodes(Stage):
    """Prototypical training on labelled images."""

    name = "supervised"

    def __init__(self, encoder: Encoder, collection: Collection, chosen: PretrainedSettings) -> None:
        super().__init__()
        self.encoder, self.plan, self.episodes = encoder, chosen.supervised, chosen.episodes
        self.views = FirstView(make_views(chosen.views, encoder.size, extra=0))
        self.sampler = class_sampler(collection, self.episodes.classes, self.episodes.images)

    def step(self, batch: Batch, t: Tensor) -> dict[str, Tensor]:
        features = self.encoder(batch.views).unflatten(0, (-1, self.episodes.images))
        return {"loss": prototypical(features, self.episodes.support)}


def check_network(chosen: SelfSupervisionSettings, shape: tuple[int, int, int]) -> Net:
    """The network for images of that shape (channels, height, width). Stops where there is none, where it has too few
    blocks, or where views of the images cannot be made."""
    with torch.random.fork_rng(devices=[]):
        net = nets.build(chosen.network, *shape[:2])
    if chosen.self_supervision:
        thaw(net, chosen.tuned_blocks, setting="tuned_blocks")
    make_views(chosen.views, shape[1], extra=0)
    return net


def learn_turns(encoder: Encoder, collection: Collection, chosen: SelfSupervisionSettings, engine: Engine) -> None:
    """RotNet on all images, where the settings want it; from then on the last blocks alone learn."""
    if chosen.self_supervision:
        engine.train(SelfSupervised("selfsupervised", encoder, "rotation", collection, chosen))
        thaw(encoder.net, chosen.tuned_blocks, setting="tuned_blocks")


def learn_labels(
    encoder: Encoder, collection: Collection, chosen: PretrainedSettings, engine: Engine
) -> LinearClassifier:
    """Supervised training on the labelled images. Gives the classifier over known categories; with the prototypical
    loss, which needs none, a fresh one."""
    head = LinearClassifier(encoder.width, len(collection.classes))
    if chosen.supervised_loss == "prototypical":
        engine.train(Episodes(encoder, collection, chosen))
    else:
        views = FirstView(make_views(chosen.views, encoder.size, extra=0))
        engine.train(Supervised("supervised", encoder, head, collection, chosen.supervised, views))
    return head
