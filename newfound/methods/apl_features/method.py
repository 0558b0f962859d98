"""APL on frozen features: for people with few images, from a network that others have trained."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from newfound.cluster.whitening import whitening
from newfound.config.settings import FeatureSettings
from newfound.data.collection import Collection
from newfound.data.vectors import VectorStore
from newfound.engine.frozen import frozen_features, seconds_per_image, uncomputed
from newfound.engine.loop import Engine
from newfound.methods.apl.method import as_model
from newfound.methods.apl.selftraining import class_means
from newfound.methods.apl_features.headtraining import HeadTraining
from newfound.methods.apl_features.tuning import Tuning
from newfound.methods.base import Outcome, novel_names, predict_novel
from newfound.methods.kmeans import find_clusters
from newfound.model import Encoder, Model
from newfound.nets.heads import CosineClassifier, Whitened
from newfound.nets.pretrained import Backbone, load_backbone
from newfound.nets.thaw import thaw


class FeatureAPL:
    """Features once, whitened by the known categories; clusters among them; then stage II over a small head that
    starts as the whitening, with a classifier that starts as the categories' means."""

    def __init__(self, settings: FeatureSettings) -> None:
        self.settings = settings

    def fit(self, collection: Collection, engine: Engine) -> Outcome:
        chosen, first = self.settings, collection.n_labelled
        torch.manual_seed(engine.seed)
        encoder, features = self._read(collection, engine)
        single = dataclasses.replace(chosen.cluster, algorithm="kmeans")
        plain = find_clusters(features[first:], collection, single, engine, "clustering plain features")[0]
        earlier = {"plain": plain.cpu().numpy()}

        project = encoder.project
        assert isinstance(project, Whitened)
        inputs = start_whitened(project.to(engine.device), features, engine.labels[:first], chosen)
        spread = project.linear(inputs).detach()
        white = F.normalize(spread)
        novel = find_clusters(white[first:], collection, single, engine, "clustering whitened features")[0]
        earlier["whitened"] = novel.cpu().numpy()
        if chosen.cluster.algorithm != "kmeans":
            novel = find_clusters(spread[first:], collection, chosen.cluster, engine, "agreeing on clusters")[0]
            earlier["clusters"] = novel.cpu().numpy()

        n = len(collection.classes) + collection.n_novel
        head = CosineClassifier(encoder.width, n, chosen.temperature).to(engine.device)
        labels = torch.cat([engine.labels[:first], len(collection.classes) + novel])
        with torch.no_grad():
            head.weight.copy_(class_means(white, labels, n))
        stage = HeadTraining(project, head, VectorStore(inputs), novel, collection, chosen)
        engine.train(stage)

        names = collection.classes, novel_names(collection)
        model = as_model(encoder, head, names, method="apl-features")
        with torch.no_grad():
            trained = F.normalize(project.linear(inputs))
        confidence, novel = predict_novel(model, trained[first:], collection).max(1)
        if chosen.tune.blocks:
            earlier["frozen"] = novel.cpu().numpy()
            engine.train(Tuning(encoder, head, VectorStore(inputs), stage.novel, collection, chosen))
            model = as_model(encoder, head, names, method="apl-features")
            trained = self._tuned_features(model, engine)
            confidence, novel = predict_novel(model, trained[first:], collection).max(1)
        found = novel.cpu().numpy(), confidence.cpu().numpy()
        tuned = chosen.tune.blocks > 0
        return Outcome(model, *found, {}, earlier, trained, before=white, plain=features, plain_is_the_models=not tuned)

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
            of=encoder.raw,
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

    def seconds_to_read(self, collection: Collection, engine: Engine) -> float:
        """How long the network will look at images, by the time that one batch takes: at those whose features are not
        in the cache, and to be tuned at all of them, every epoch and once afterwards. An epoch's look counts twice, on
        the safe side: how much of the network gradients pass differs."""
        if isinstance(collection.train, VectorStore):
            return 0.0
        encoder, digest = self._frozen(collection, engine)
        images, tune = engine.train_images, self.settings.tune
        looks = len(uncomputed(images, engine.device, engine.reporter, identity=digest, cache=engine.cache))
        looks += (2 * tune.epochs + 1) * len(images) if tune.blocks else 0
        return looks * seconds_per_image(encoder, images, engine.device, of=encoder.raw) if looks else 0.0

    def _dimension(self, shape: Sequence[int]) -> int:
        """That of whitened features, where there are features of that shape [N, D]."""
        return max(1, min(self.settings.whitening.dimension, shape[0] - 1, shape[1]))

    def _backbone(self, engine: Engine) -> Backbone:
        backbone = load_backbone(self.settings.network, self.settings.weights, engine.cache, self.settings.digest)
        mean, deviation = self.settings.mean or backbone.mean, self.settings.deviation or backbone.deviation
        return dataclasses.replace(backbone, mean=mean, deviation=deviation)


@torch.no_grad()
def start_whitened(project: Whitened, features: Tensor, labels: Tensor, chosen: FeatureSettings) -> Tensor:
    """Make the linear layer the whitening by the known categories, the first of the features [n_train, D]; gives back
    what goes into it, [n_train, D]."""
    project.centre.copy_(features.mean(0))
    project.mean.zero_().copy_(project.directions(features).mean(0))
    inputs = project.directions(features)
    size = project.linear.out_features
    project.linear.weight.copy_(whitening(inputs, labels, shrinkage=chosen.whitening.shrinkage, dimension=size))
    return inputs
