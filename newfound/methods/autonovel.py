"""Learn novel categories from pairs of unlabelled images whose largest features are in the same places.

AutoNovel, with ranking statistics; with ``incremental``, one classifier for known and novel categories.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from newfound.config.settings import PlanSettings, number
from newfound.data.collection import Collection
from newfound.data.look import Look
from newfound.engine.loop import Engine
from newfound.engine.sampler import mixed_sampler
from newfound.engine.schedule import ramp_up, value_at
from newfound.engine.stage import Batch, Stage
from newfound.errors import UserError
from newfound.losses import consistency, pair_likelihood, same_top_ranks
from newfound.methods.base import Fit, Method, Outcome, fit_whole_views
from newfound.methods.parts.encoder import make_encoder
from newfound.methods.parts.outcome import read_outcome
from newfound.methods.parts.pretraining import PretrainedSettings, check_network, learn_labels, learn_turns
from newfound.methods.parts.sidebyside import level_parts
from newfound.methods.parts.tasks import allowed_categories, masked_logits, novel_names
from newfound.methods.parts.views import make_views
from newfound.model import Encoder, Model
from newfound.nets.heads import LinearClassifier
from newfound.views.multiview import Crops


@dataclass(frozen=True)
class AutoNovelSettings(PretrainedSettings):
    """Self-supervised and supervised training, then discovery."""

    method: str = "autonovel"
    self_supervision: bool = True
    discovery: PlanSettings = PlanSettings(epochs=200, batch=128, schedule="steps", milestones=(170,))
    labelled_share: float = number(0.0, 0, 0.99)
    """Labelled images in a batch of discovery; 0 takes their share in the collection."""
    ranks: int = number(5, 1, 100_000)
    """Of how many largest features the places have to be the same, for two images to count as of one category."""
    pairwise: float = number(1.0, 0)
    """Weight of the binary cross-entropy over pairs of unlabelled images."""
    consistency: float = number(5.0, 0)
    """Weight of the consistency of two views, once it has risen."""
    rising: float = number(0.25, 0, 1)
    """The share of the epochs of discovery in which the weights of consistency and of incremental learning rise."""
    incremental: bool = False
    """Whether the classifier over known categories is widened by the novel ones and answers alone."""
    incremental_weight: float = number(0.05, 0)
    """Weight, once it has risen, of the cross-entropy of the widened classifier on unlabelled images."""


class Discovery(Stage):
    """Joint training of a classifier over known categories and one over novel ones, on two views of each image.

    Labelled images have their labels. Unlabelled ones are compared in pairs: the first view of one, the second of the
    other. Both classifiers are to say the same of both views. A batch has unlabelled images of one task, and only that
    task's novel categories take part in it.
    """

    name = "discovery"
    allowed: Tensor
    ramp: Tensor

    def __init__(
        self, encoder: Encoder, known: LinearClassifier, collection: Collection, chosen: AutoNovelSettings
    ) -> None:
        super().__init__()
        self.encoder, self.chosen, self.plan = encoder, chosen, chosen.discovery
        self.views = make_views(chosen.views, encoder.size, extra=0)
        self.sampler = mixed_sampler(collection, self.plan.batch, chosen.labelled_share, one_task=True)
        self.n_labelled, self.n_base = collection.n_labelled, len(collection.classes)
        self.known = widen(known, collection.n_novel) if chosen.incremental else known
        self.novel = LinearClassifier(encoder.width, collection.n_novel)
        epochs = self.plan.epochs
        ramp = torch.from_numpy(ramp_up(1.0, chosen.rising * epochs, epochs, self.sampler.steps))
        self.register_buffer("ramp", ramp.float(), persistent=False)
        self.register_buffer("allowed", allowed_categories(collection)[1], persistent=False)

    def step(self, batch: Batch, t: Tensor) -> dict[str, Tensor]:
        crops: Crops = batch.views
        n, first, chosen = len(batch.labels), batch.n_known, self.chosen
        features = self.encoder(crops.whole.flatten(0, 1))
        of_known, of_novel = self._taking_part(batch)
        known, novel = masked_logits(self.known(features), of_known), masked_logits(self.novel(features), of_novel)
        known_one, known_other = known.softmax(1).split(n)
        one, other = novel.softmax(1).split(n)
        alike = same_top_ranks(features[first:n], chosen.ranks)
        parts = {
            "supervised": F.cross_entropy(known[:first], batch.labels[:first]),
            "pairwise": pair_likelihood(one[first:], other[first:], alike),
            "consistency": consistency(known_one, known_other, of_known) + consistency(one, other, of_novel),
        }
        rise = value_at(self.ramp, t)
        loss = parts["supervised"] + chosen.pairwise * parts["pairwise"]
        loss = loss + chosen.consistency * rise * parts["consistency"]
        if chosen.incremental:
            found = self.n_base + novel[first:n].argmax(1)
            parts["incremental"] = F.cross_entropy(known[first:n], found)
            loss = loss + chosen.incremental_weight * rise * parts["incremental"]
        return {"loss": loss, **parts, "pairs_alike": alike.float().mean()}

    def _taking_part(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Which outputs of the two classifiers take part in the batch, bool [known] (or [known + K]) and [K]: all
        known categories, and the novel ones of the task that its unlabelled images are of."""
        image = batch.index[batch.n_known : batch.n_known + 1] - self.n_labelled
        of_novel = self.allowed[image][0]
        of_known = of_novel.new_ones(self.n_base)
        return torch.cat([of_known, of_novel]) if self.chosen.incremental else of_known, of_novel

    @torch.no_grad()
    def side_by_side(self) -> LinearClassifier:
        """One classifier over known and novel categories, from the rows of the two."""
        head = LinearClassifier(self.encoder.width, self.n_base + self.novel.out_features)
        head.weight.copy_(torch.cat([self.known.weight[: self.n_base], self.novel.weight]))
        head.bias.copy_(torch.cat([self.known.bias[: self.n_base], self.novel.bias]))
        return head


@torch.no_grad()
def widen(known: LinearClassifier, more: int) -> LinearClassifier:
    """A classifier with the rows of ``known`` and ``more`` fresh ones, whose biases are 1 below the smallest there."""
    n = known.out_features
    head = LinearClassifier(known.in_features, n + more)
    head.weight[:n] = known.weight
    head.bias[:n] = known.bias
    head.bias[n:] = known.bias.min() - 1
    return head


class AutoNovel(Method):
    """RotNet on all images, supervised training on the labelled ones, then discovery on all."""

    Settings = AutoNovelSettings
    reference = "Han et al., Automatically Discovering and Learning New Visual Categories with Ranking Statistics, ICLR"
    year = 2020
    stretched = "discovery"

    def fit(self, collection: Collection, engine: Engine, start: Model | None = None) -> Outcome:
        chosen: AutoNovelSettings = self.settings
        encoder = make_encoder(chosen.network, collection, start)
        learn_turns(encoder, collection, chosen, engine)
        stage = Discovery(encoder, learn_labels(encoder, collection, chosen, engine), collection, chosen)
        engine.train(stage)
        names = collection.classes, novel_names(collection)
        head = stage.side_by_side()
        outcome = read_outcome(Model(encoder, head, *names, method=chosen.method), collection, engine)
        if chosen.incremental:
            return replace(outcome, model=Model(encoder, stage.known, *names, method=chosen.method))
        assert outcome.features is not None
        level_parts(head, outcome.features, collection.n_labelled, len(collection.classes))
        return outcome

    @classmethod
    def fitted(cls, look: Look, domain: str, device: str, given: Mapping[str, Any]) -> list[Fit]:
        return fit_whole_views(look, domain, device, given)

    def check(self, shape: tuple[int, int, int]) -> None:
        width = check_network(self.settings, shape).width
        if self.settings.ranks >= width:
            raise UserError(f"ranks is {self.settings.ranks}, but the network has {width} features: give fewer")
