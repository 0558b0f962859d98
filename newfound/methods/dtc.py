"""Start from clusters of features that the labelled images taught, and learn towards ever surer assignments to them.

DTC, with its four variants.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from newfound.cluster.pca import principal_components
from newfound.config.settings import ClusterSettings, PlanSettings, number
from newfound.data.collection import Collection
from newfound.data.look import Look
from newfound.engine.loop import Engine
from newfound.engine.sampler import unlabelled_sampler
from newfound.engine.schedule import ramp_up, value_at
from newfound.engine.stage import Batch, Stage
from newfound.losses import TemporalEnsemble, cluster_divergence, consistency, sharpen, soft_assignment
from newfound.methods.base import Fit, Method, Outcome, fit_whole_views
from newfound.methods.parts.clusters import find_clusters
from newfound.methods.parts.encoder import make_encoder
from newfound.methods.parts.joint import joint_epochs, joint_outcome
from newfound.methods.parts.pretraining import PretrainedSettings, check_network, learn_labels, learn_turns
from newfound.methods.parts.tasks import allowed_categories, by_task
from newfound.methods.parts.views import make_views
from newfound.model import Encoder, Model
from newfound.nets.heads import linear_or_mlp
from newfound.views.multiview import FirstView, MultiViews


@dataclass(frozen=True)
class DTCSettings(PretrainedSettings):
    """Supervised training, clusters, a warm-up towards them, discovery, and a classifier over old and new."""

    method: str = "dtc"
    variant: Literal["baseline", "pi", "te", "tep"] = "pi"
    """What discovery has beside its targets: nothing; another view of the image is to be assigned alike (PI); each
    image is to be assigned as it was on average (TE); the targets are made from that average (TEP)."""
    hidden: int = number(0, 0, 2**14)
    """Units of the hidden layer between features and clusters; 0 for none."""
    plain: bool = False
    """Whether the targets are learned from images as they are, instead of random views."""
    interval: int = number(5, 1, 10**6)
    """Epochs of discovery after which the targets are made anew."""
    sharpening: float = number(1.0, 0)
    """Weight of the divergence from the targets in discovery."""
    consistency: float = number(10.0, 0)
    """Weight of PI's and TE's own term, once it has risen."""
    rising: float = number(0.05, 0, 1)
    """The share of the epochs of discovery over which that weight rises."""
    momentum: float = number(0.6, 0, 0.999)
    """Of the average over epochs (TE, TEP)."""
    warmup: PlanSettings = PlanSettings(epochs=10, batch=128, lr=0.1, schedule="constant")
    discovery: PlanSettings = PlanSettings(epochs=100, batch=128, lr=0.05, schedule="constant")
    joint: PlanSettings = PlanSettings(epochs=20, batch=256, lr=0.05)


@dataclass(frozen=True)
class ClusterViews:
    """Views [V, n, C, S, S] of images: one, or two where there is a ``pair``. The first is the image itself where it is
    ``plain``; the others are random."""

    views: MultiViews
    plain: bool
    pair: bool

    def draw(self, generator: torch.Generator, n: int, t: Tensor) -> dict[str, Tensor]:
        return self.views.draw(generator, n, t)

    def apply(self, images: Tensor, parameters: dict[str, Tensor]) -> Tensor:
        itself = images[None].float() / 255
        if self.plain and not self.pair:
            return itself
        whole = self.views.apply(images, parameters).whole
        first = itself if self.plain else whole[:1]
        return torch.cat([first, whole[1:]]) if self.pair else first


class ClusterHead(nn.Module):
    """Assignments [n, K] of features [n, D] to all tasks' clusters, each task's in a space of its own.

    A task of k clusters has k of the K outputs for its vectors, and its centres are 0 elsewhere. An image's outputs
    for other tasks are set to 0, so they move nothing.
    """

    def __init__(self, width: int, hidden: int, centres: Tensor) -> None:
        super().__init__()
        self.project = linear_or_mlp(width, hidden, len(centres))
        self.centres = nn.Parameter(centres.clone())

    def forward(self, features: Tensor, allowed: Tensor) -> Tensor:
        with torch.autocast(features.device.type, enabled=False):
            vectors = self.project(features.float()) * allowed
        return soft_assignment(vectors, self.centres, allowed)


class Clustered(Stage):
    """Learn fixed targets [n_unlabelled, K]: the warm-up, in which a fresh head finds the clusters of the features."""

    name = "warmup"
    targets: Tensor
    allowed: Tensor

    def __init__(
        self, encoder: Encoder, head: ClusterHead, collection: Collection, chosen: DTCSettings, targets: Tensor,
        *, pair: bool = False,
    ) -> None:  # fmt: skip
        """With a ``pair`` an image has two views."""
        super().__init__()
        self.encoder, self.head, self.chosen, self.plan = encoder, head, chosen, getattr(chosen, self.name)
        self.views = ClusterViews(make_views(chosen.views, encoder.size, extra=0), chosen.plain, pair)
        # Of all tasks together, since batch norm goes by the statistics of all when features are read: in
        # rehearsal on two tasks batches of one task were far worse (docs/log/methods.md).
        self.sampler = unlabelled_sampler(collection, self.plan.batch)
        self.n_labelled = collection.n_labelled
        self.register_buffer("targets", targets)
        self.register_buffer("allowed", allowed_categories(collection)[1], persistent=False)

    def step(self, batch: Batch, t: Tensor) -> dict[str, Tensor]:
        rows = batch.index - self.n_labelled
        assigned = self.assign(batch.views, rows)[0]
        loss = cluster_divergence(self.targets[rows], assigned, self.allowed[rows])
        return {"loss": loss, "certainty": assigned.detach().amax(1).mean()}

    def assign(self, views: Tensor, rows: Tensor) -> Tensor:
        """Assignments [V, n, K] of views [V, n, C, S, S] of the unlabelled images ``rows`` [n]."""
        allowed = self.allowed[rows].repeat(len(views), 1)
        return self.head(self.encoder(views.flatten(0, 1)), allowed).unflatten(0, (len(views), -1))


class Discovery(Clustered):
    """Learn targets that are made anew from time to time, with the variant's own term."""

    name = "discovery"
    ramp: Tensor

    def __init__(
        self, encoder: Encoder, head: ClusterHead, collection: Collection, chosen: DTCSettings, targets: Tensor
    ) -> None:
        super().__init__(encoder, head, collection, chosen, targets, pair=chosen.variant == "pi")
        averaged = chosen.variant in ("te", "tep")
        self.ensemble = TemporalEnsemble(len(targets), collection.n_novel, chosen.momentum) if averaged else None
        epochs = self.plan.epochs
        weights = ramp_up(chosen.consistency, chosen.rising * epochs, epochs, self.sampler.steps)
        self.register_buffer("ramp", torch.from_numpy(weights).float(), persistent=False)

    @torch.no_grad()
    def before_epoch(self, epoch: int, engine: Engine) -> None:
        """Bring the averages up to date, and make new targets every few epochs.

        TE averages what was said of views in training, and begins with the images as they are. TEP averages the images
        as they are.
        """
        renew = epoch % self.chosen.interval == 0
        if renew or self.chosen.variant == "tep":
            assigned = read_assignments(self.encoder, self.head, self.allowed, engine)
        if self.ensemble is not None:
            if epoch == 0 or self.chosen.variant == "tep":
                self.ensemble.latest.copy_(assigned)
            self.ensemble.update()
            if self.chosen.variant == "tep":
                assigned = self.ensemble.of(slice(None))
        if renew:
            self.targets.copy_(sharpen(assigned))

    def step(self, batch: Batch, t: Tensor) -> dict[str, Tensor]:
        rows = batch.index - self.n_labelled
        allowed = self.allowed[rows]
        assigned, *others = self.assign(batch.views, rows)
        parts = {"divergence": cluster_divergence(self.targets[rows], assigned, allowed)}
        loss = self.chosen.sharpening * parts["divergence"]
        if self.ensemble is not None and self.chosen.variant == "te":
            others = [self.ensemble.of(rows)]
            self.ensemble.record(rows, assigned)
        if others:
            parts["consistency"] = consistency(assigned, others[0], allowed)
            loss = loss + value_at(self.ramp, t) * parts["consistency"]
        return {"loss": loss, **parts, "certainty": assigned.detach().amax(1).mean()}


@torch.no_grad()
def read_assignments(encoder: Encoder, head: ClusterHead, allowed: Tensor, engine: Engine) -> Tensor:
    """The assignments [n_unlabelled, K] of the unlabelled images as they are."""
    images = engine.train_images.take(engine.collection.unlabelled)
    features = engine.features(encoder, images, title="")
    return head.eval()(features, allowed)


def reduce(features: Tensor, collection: Collection) -> Tensor:
    """Features [n_unlabelled, D] in as many dimensions as there are novel categories, [n_unlabelled, K]: each task's
    principal components in the columns of its own categories, 0 in the others."""
    reduced = features.new_zeros(len(features), collection.n_novel)
    for _, rows, own in by_task(collection, features.device):
        reduced[rows, own] = principal_components(features[rows], own.stop - own.start)
    return reduced


class DTC(Method):
    """Deep transfer clustering: supervised features, clusters of the unlabelled images in few dimensions, and a network
    that learns to assign to these clusters, and to be sure of it."""

    Settings = DTCSettings
    reference = "Han et al., Learning to Discover Novel Visual Categories via Deep Transfer Clustering, ICCV"
    year = 2019
    stretched = "discovery"

    def fit(self, collection: Collection, engine: Engine, start: Model | None = None) -> Outcome:
        chosen: DTCSettings = self.settings
        encoder = make_encoder(chosen.network, collection, start)
        learn_turns(encoder, collection, chosen, engine)
        learn_labels(encoder, collection, chosen, engine)
        allowed = allowed_categories(collection)[1].to(engine.device)
        features = engine.features(encoder, engine.train_images, title="reading features")
        reduced = reduce(features[collection.n_labelled :], collection)
        clusters, centres, _ = find_clusters(reduced, collection, ClusterSettings(), engine)
        head = ClusterHead(encoder.width, chosen.hidden, centres.cpu())
        targets = sharpen(soft_assignment(reduced, centres, allowed))
        engine.train(Clustered(encoder, head, collection, chosen, targets))
        warm = read_assignments(encoder, head, allowed, engine)
        engine.train(Discovery(encoder, head, collection, chosen, targets))
        n_known = len(collection.classes)
        confidence, found = read_assignments(encoder, head, allowed, engine).max(1)
        views = FirstView(make_views(chosen.views, encoder.size, extra=0))
        outcome = joint_outcome(
            encoder, (n_known + found).cpu().numpy(), confidence.cpu().numpy(), collection, chosen.joint, views, engine,
            method=chosen.method,
        )  # fmt: skip
        earlier = {"clusters": clusters.cpu().numpy(), "warmup": (n_known + warm.argmax(1)).cpu().numpy()}
        return replace(outcome, earlier=earlier, features_before_stage2=features)

    @classmethod
    def fitted(cls, look: Look, domain: str, device: str, given: Mapping[str, Any]) -> list[Fit]:
        return fit_whole_views(look, domain, device, given)

    def check(self, shape: tuple[int, int, int]) -> None:
        check_network(self.settings, shape)

    def later_epochs(self, collection: Collection) -> float:
        return joint_epochs(self.settings.joint, collection)
