"""APL on frozen features: for people with few images, from a network that others have trained."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from newfound import nets
from newfound.cluster.kmeans import kmeans
from newfound.cluster.whitening import whitening
from newfound.data.collection import Collection
from newfound.data.look import Look
from newfound.data.vectors import VectorStore
from newfound.engine.frozen import frozen_features, seconds_per_image, uncomputed
from newfound.engine.loop import Engine
from newfound.errors import UserError
from newfound.methods.apl_features.headtraining import HeadTraining
from newfound.methods.apl_features.settings import FeatureSettings, WhiteningSettings
from newfound.methods.apl_features.tuning import Tuning
from newfound.methods.base import Fit, Method, Outcome
from newfound.methods.parts.clusters import find_clusters
from newfound.methods.parts.labels import class_means, joint_labels
from newfound.methods.parts.tasks import first_candidate, novel_names, predict_candidates
from newfound.model import Encoder, Model
from newfound.nets.heads import CosineClassifier, Whitened
from newfound.nets.pretrained import Backbone, load_backbone
from newfound.nets.thaw import thaw

STARTS = 5
"""Of k-means in a rehearsal, which is quick rather than exact."""


class FeatureAPL(Method):
    """Features once, whitened by the known categories; clusters among them; then stage II over a small head that
    starts as the whitening, with a classifier that starts as the categories' means."""

    Settings = FeatureSettings
    reference = "Ours: the second stage of Zhang et al. (apl) over the features of a pretrained network"
    year = 2026
    gpu = False
    takes = frozenset({"images", "features", "backbone"})
    mixed = True
    stretched = ""
    goes_on = False

    def fit(self, collection: Collection, engine: Engine, start: Model | None = None) -> Outcome:
        if start is not None:
            raise UserError("apl-features starts from a pretrained network, not from another run's model")
        chosen, first, n_known = self.settings, collection.n_labelled, len(collection.classes)
        encoder, features = self._read(collection, engine)
        earlier = {}

        def find(among: Tensor, settings: Any, name: str, title: str) -> Tensor:
            assigned = find_clusters(among[first:], collection, settings, engine, title, known=among[:first])[0]
            earlier[name] = assigned.cpu().numpy()
            return assigned

        single = dataclasses.replace(chosen.cluster, algorithm="kmeans")
        find(features, single, "plain", "clustering plain features")
        project = encoder.project
        assert isinstance(project, Whitened)
        inputs = start_whitened(project.to(engine.device), features, engine.labels[:first], chosen.whitening)
        spread = project.linear(inputs).detach()
        white = F.normalize(spread)
        assigned = find(white, single, "whitened", "clustering whitened features")
        if chosen.cluster.algorithm != "kmeans":
            assigned = find(spread, chosen.cluster, "clusters", "agreeing on clusters")

        n = n_known + collection.n_novel
        head = CosineClassifier(encoder.width, n).to(engine.device)
        with torch.no_grad():
            head.weight.copy_(class_means(white, joint_labels(engine, assigned.cpu().numpy()), n))
        stage = HeadTraining(
            project, head, VectorStore(inputs), assigned - first_candidate(collection), collection, chosen
        )
        engine.train(stage)

        names = collection.classes, novel_names(collection)
        model = Model(encoder, head, *names, method="apl-features", unit_features=True)
        with torch.no_grad():
            trained = F.normalize(project.linear(inputs))
        confidence, found = predict_candidates(model, trained[first:], collection).max(1)
        tuned = chosen.tune.blocks > 0
        if tuned:
            earlier["frozen"] = found.cpu().numpy()
            engine.train(Tuning(encoder, head, VectorStore(inputs), stage.found, collection, chosen))
            trained = self._tuned_features(model, engine)
            confidence, found = predict_candidates(model, trained[first:], collection).max(1)
        return Outcome(
            model,
            found.cpu().numpy(),
            confidence.cpu().numpy(),
            earlier=earlier,
            features=trained,
            features_before_stage2=white,
            backbone_features=features,
            backbone_unchanged=not tuned,
        )

    @classmethod
    def fitted(cls, look: Look, domain: str, device: str, given: Mapping[str, Any]) -> list[Fit]:
        """The network has its own image size, and nothing depends on the images."""
        return []

    def check_settings(self) -> None:
        if not nets.is_external(self.settings.network):
            super().check_settings()
        if self.settings.tune.blocks:
            with torch.device("meta"):  # takes no memory
                thaw(nets.build(self.settings.network, 3, 224), self.settings.tune.blocks)

    def check_weights(self, loaded: Mapping[str, Any], *, features: bool, cache: Path) -> None:
        named = {name: getattr(self.settings, name) for name in ("network", "weights", "digest")}
        if named.items() <= ({"weights": "", "digest": ""} | dict(loaded)).items():
            return
        if features:
            raise UserError(
                "features are what a network made of images: settings must not name its network, weights or digest"
            )
        load_backbone(cache=cache, **named)

    def check(self, shape: tuple[int, int, int]) -> None:
        """Images of any shape will do: they are resized for the network."""

    @torch.no_grad()
    def regroup(self, features: Tensor, labels: Tensor, k: int, seed: int) -> tuple[Tensor, Tensor]:
        """Whitening by the labelled features, then k-means among the others."""
        project = Whitened(features.shape[1], self._dimension(features.shape))
        inputs = start_whitened(project, features, labels, self.settings.whitening)
        white = F.normalize(project.linear(inputs))[len(labels) :]
        return kmeans(white, k, starts=STARTS, seed=seed).labels, white

    def _tuned_features(self, model: Model, engine: Engine) -> Tensor:
        """The model's features [n_train, D], which are not kept: no other run has its network."""
        images = engine.train_images
        return frozen_features(
            model, images, engine.device, engine.reporter, of=model.features, identity="", cache=None
        )

    def _read(self, collection: Collection, engine: Engine) -> tuple[Encoder, Tensor]:
        """The encoder, its linear layer still without meaning, and the network's features [n_train, D]."""
        channels = collection.train.shape[0]
        if isinstance(collection.train, VectorStore):
            features, zero = engine.train_images.images.flatten(1), torch.zeros(channels)
            encoder = Encoder(
                "features", channels, 1, zero, zero + 1, dimension=self._dimension(features.shape), whitened=True
            )
            thaw(encoder.net, self.settings.tune.blocks)
            return encoder, features
        encoder, digest = self._frozen(collection, engine)
        features = frozen_features(
            encoder,
            engine.train_images,
            engine.device,
            engine.reporter,
            of=encoder.backbone_features,
            identity=digest,
            cache=engine.cache,
        )
        return encoder, features

    def _frozen(self, collection: Collection, engine: Engine) -> tuple[Encoder, str]:
        """The encoder around the network that others have trained, and the network's digest."""
        channels, size, _ = collection.train.shape
        backbone = self._backbone(engine)
        encoder = Encoder(
            backbone.network,
            channels,
            size,
            torch.tensor(backbone.mean),
            torch.tensor(backbone.deviation),
            dimension=self._dimension((len(collection.train), backbone.net.width)),
            resized=backbone.size,
            whitened=True,
        )
        encoder.net.load_state_dict(backbone.net.state_dict())
        thaw(encoder.net, self.settings.tune.blocks)
        return encoder, backbone.digest()

    def seconds_to_read(self, collection: Collection, engine: Engine) -> tuple[str, float]:
        """By the time that one batch takes: the network looks at images whose features are not in the cache, and to be
        tuned at all of them, every epoch and once afterwards. An epoch's look counts twice, on the safe side: how much
        of the network gradients pass differs."""
        tune = self.settings.tune
        what = "reading features and tuning" if tune.blocks else "reading features"
        if isinstance(collection.train, VectorStore):
            return what, 0.0
        encoder, digest = self._frozen(collection, engine)
        images = engine.train_images
        looks = len(uncomputed(images, engine.device, engine.reporter, identity=digest, cache=engine.cache))
        looks += (2 * tune.epochs + 1) * len(images) if tune.blocks else 0
        each = seconds_per_image(encoder, images, engine.device, of=encoder.backbone_features) if looks else 0.0
        return what, looks * each

    def kept_as(self) -> str:
        chosen = self.settings
        as_pinned = not (chosen.tune.blocks or chosen.mean or chosen.deviation)
        return str(chosen.digest) if as_pinned else ""

    def _dimension(self, shape: Sequence[int]) -> int:
        """That of whitened features, where there are features of that shape [N, D]."""
        return max(1, min(self.settings.whitening.dimension, shape[0] - 1, shape[1]))

    def _backbone(self, engine: Engine) -> Backbone:
        backbone = load_backbone(self.settings.network, self.settings.weights, engine.cache, self.settings.digest)
        mean, deviation = self.settings.mean or backbone.mean, self.settings.deviation or backbone.deviation
        return dataclasses.replace(backbone, mean=mean, deviation=deviation)


@torch.no_grad()
def start_whitened(project: Whitened, features: Tensor, labels: Tensor, chosen: WhiteningSettings) -> Tensor:
    """Make the linear layer the whitening by the known categories, the first of the features [n_train, D]; gives back
    what goes into it, [n_train, D]."""
    project.centre.copy_(features.mean(0))
    project.mean.zero_().copy_(project.directions(features).mean(0))
    inputs = project.directions(features)
    size = project.linear.out_features
    project.linear.weight.copy_(whitening(inputs, labels, shrinkage=chosen.shrinkage, dimension=size))
    return inputs
