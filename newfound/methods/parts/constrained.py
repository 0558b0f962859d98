"""Clustering constrained by predicted similarities of pairs: what kcl and mcl are made of."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from newfound.config.settings import PlanSettings, number
from newfound.data.collection import Collection
from newfound.data.look import Look
from newfound.engine.loop import Engine
from newfound.engine.sampler import class_sampler, unlabelled_sampler
from newfound.engine.stage import Batch, Stage
from newfound.errors import UserError
from newfound.methods.base import Fit, Method, Outcome, fit_whole_views
from newfound.methods.parts.encoder import make_encoder
from newfound.methods.parts.joint import joint_epochs, joint_outcome
from newfound.methods.parts.pretraining import SelfSupervisionSettings, check_network, learn_turns
from newfound.methods.parts.tasks import allowed_categories, masked_logits
from newfound.methods.parts.views import make_views
from newfound.model import Encoder, Model
from newfound.nets.heads import linear_or_mlp
from newfound.nets.pairs import PairHead
from newfound.views.multiview import FirstView

PairLoss = Callable[[Tensor, Tensor], Tensor]
"""A scalar from probabilities [n, K] and which pairs of them are the same [n, n] (bool)."""


@dataclass(frozen=True)
class ConstrainedSettings(SelfSupervisionSettings):
    """A similarity network on labelled images, then a clustering network on the unlabelled ones."""

    similarity: PlanSettings = PlanSettings(
        epochs=50, batch=100, optimiser="adam", lr=1e-3, weight_decay=0.0, schedule="steps", milestones=(30, 40)
    )
    categories: int = number(20, 2, 10_000)
    """Known categories in a batch of the similarity network, or all if there are fewer; the batch has as many images of
    each."""
    discovery: PlanSettings = PlanSettings(
        epochs=150, batch=100, optimiser="adam", lr=1e-3, weight_decay=0.0, schedule="steps", milestones=(100,)
    )
    hidden: int = number(0, 0, 2**14)
    """Width of a layer (batch norm, ReLU) between features and softmax of the clustering network; 0 for none."""
    pairwise: float = number(1.0, 0)
    """Weight of the loss over pairs, the only one of the discovery."""
    joint: PlanSettings = PlanSettings(epochs=30, batch=128)


class Similarity(Stage):
    """A network that tells of all ordered pairs of labelled images whether both are of one category."""

    name = "similarity"

    def __init__(self, encoder: Encoder, collection: Collection, chosen: ConstrainedSettings) -> None:
        super().__init__()
        self.network, self.plan = nn.Sequential(encoder, PairHead(encoder.width)), chosen.similarity
        self.views = FirstView(make_views(chosen.views, encoder.size, extra=0))
        categories = min(chosen.categories, len(collection.classes))
        self.sampler = class_sampler(collection, categories, self.plan.batch // categories)

    def step(self, batch: Batch, t: Tensor) -> dict[str, Tensor]:
        logits = self.network(batch.views).float()
        same = batch.labels[:, None] == batch.labels[None]
        told = logits.argmax(-1) == same
        loss = F.cross_entropy(logits.flatten(0, 1), same.flatten().long())
        return {"loss": loss, "accuracy": told.float().mean(), "found": (told & same).sum() / same.sum()}

    def snapshot(self, rows: np.ndarray, engine: Engine) -> Tensor:
        return engine.features(self.network[0], engine.train_images.take(rows), title="")


class Constrained(Stage):
    """A softmax over novel categories that puts pairs of unlabelled images together, or apart, as the similarity
    network tells.

    That network does not learn, but it stays in training mode: batch norm goes by the statistics of the batch, which
    shows categories that the network has never seen.
    """

    name = "discovery"
    allowed: Tensor

    def __init__(
        self, encoder: Encoder, similarity: nn.Module, loss: PairLoss, collection: Collection,
        chosen: ConstrainedSettings,
    ) -> None:  # fmt: skip
        """``similarity`` gives logits [n, n, 2] (different, same) of all pairs of images."""
        super().__init__()
        self.encoder, self.similarity, self.loss = encoder, similarity.requires_grad_(False), loss
        self.plan, self.weight, self.n_labelled = chosen.discovery, chosen.pairwise, collection.n_labelled
        self.head = linear_or_mlp(encoder.width, chosen.hidden, collection.n_novel)
        self.views = FirstView(make_views(chosen.views, encoder.size, extra=0))
        self.sampler = unlabelled_sampler(collection, self.plan.batch, one_task=True)
        self.register_buffer("allowed", allowed_categories(collection)[1], persistent=False)

    def step(self, batch: Batch, t: Tensor) -> dict[str, Tensor]:
        with torch.no_grad():
            same = self.similarity(batch.views).argmax(-1) == 1
        logits = self.head(self.encoder(batch.views))
        probabilities = masked_logits(logits, self.allowed[batch.index - self.n_labelled]).softmax(1)
        pairs = self.loss(probabilities, same)
        certainty = probabilities.amax(1).mean()
        return {
            "loss": self.weight * pairs,
            "pairwise": pairs,
            "pairs_alike": same.float().mean(),
            "certainty": certainty,
        }

    @torch.no_grad()
    def categories(self, engine: Engine) -> tuple[np.ndarray, np.ndarray]:
        """The category [n_unlabelled] of each unlabelled image, counted after the known ones, and its probability."""
        collection = engine.collection
        network, images = nn.Sequential(self.encoder, self.head), engine.train_images.take(collection.unlabelled)
        logits = engine.features(network, images, title="assigning")
        confidence, found = masked_logits(logits, self.allowed).softmax(1).max(1)
        return len(collection.classes) + found.cpu().numpy(), confidence.cpu().numpy()


class ConstrainedMethod(Method):
    """The similarity network, the clustering network, and a classifier over old and new categories. Both networks begin
    with the same weights: random ones, RotNet's, or those of the model to start from."""

    stretched = "discovery"

    @staticmethod
    @abstractmethod
    def pair_loss(probabilities: Tensor, same: Tensor) -> Tensor:
        """The loss (a scalar) of probabilities [n, K], from which of all pairs are the ``same`` [n, n] (bool)."""

    def fit(self, collection: Collection, engine: Engine, start: Model | None = None) -> Outcome:
        chosen: ConstrainedSettings = self.settings
        if len(collection.classes) < 2:
            raise UserError(
                f"the method {chosen.method} learns from pairs of images of different categories: give labelled images "
                "of at least two"
            )
        encoder = make_encoder(chosen.network, collection, start)
        learn_turns(encoder, collection, chosen, engine)
        similarity = Similarity(copy.deepcopy(encoder), collection, chosen)
        engine.train(similarity)
        stage = Constrained(encoder, similarity.network, self.pair_loss, collection, chosen)
        engine.train(stage)
        found, confidence = stage.categories(engine)
        return joint_outcome(
            encoder, found, confidence, collection, chosen.joint, stage.views, engine, method=chosen.method
        )

    def later_epochs(self, collection: Collection) -> float:
        return joint_epochs(self.settings.joint, collection)

    @classmethod
    def fitted(cls, look: Look, domain: str, device: str, given: Mapping[str, Any]) -> list[Fit]:
        return fit_whole_views(look, domain, device, given)

    def check_settings(self) -> None:
        super().check_settings()
        batch, some = self.settings.similarity.batch, self.settings.categories
        if batch < 2 * some:
            raise UserError(
                f"similarity.batch is {batch} and categories is {some}: a batch needs at least two images of each "
                "category"
            )

    def check(self, shape: tuple[int, int, int]) -> None:
        check_network(self.settings, shape)
