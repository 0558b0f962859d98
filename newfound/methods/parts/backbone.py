"""Methods over a network that others have trained: its features, and their whitening by the known categories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from newfound import nets
from newfound.cluster.whitening import whitening
from newfound.config.settings import DataSettings, Settings, number
from newfound.data.collection import Collection
from newfound.data.look import Look
from newfound.data.vectors import VectorStore
from newfound.engine.frozen import frozen_features, seconds_per_image, uncomputed
from newfound.engine.loop import Engine
from newfound.errors import UserError
from newfound.methods.base import Fit, Method
from newfound.model import Encoder, Model
from newfound.nets.heads import Whitened
from newfound.nets.pretrained import Backbone, is_pretrained, load_backbone
from newfound.nets.thaw import thaw

GREY = 127
"""Of the padding around a view: what a pretrained network sees as nothing."""


@dataclass(frozen=True)
class WhiteningSettings:
    """How the known categories say which variation of the features to ignore."""

    shrinkage: float = number(0.5, 0, 1)
    """How far their covariance moves to the identity of the same mean eigenvalue."""
    dimension: int = number(64, 1, 2**16)
    """Of the whitened features, by principal components."""


@dataclass(frozen=True)
class BackboneSettings(Settings):
    """Which network that others have trained."""

    network: str = "efficientnet-lite0"
    weights: str = ""
    """A safetensors file of the network's weights; "" where its name says which they are."""
    digest: str = ""
    """Of the weights, so that a run goes on with those it began with; "" takes what there is."""
    mean: tuple[float, ...] = ()
    """Mean of the three channels, in 0 to 1, as the network was trained; none takes what is known of it."""
    deviation: tuple[float, ...] = ()
    """Of the three channels in 0 to 1, as the network was trained with; none takes what is known of the network."""
    data: DataSettings = DataSettings(size=224)

    def __post_init__(self) -> None:
        if len(self.mean) not in (0, 3) or len(self.deviation) not in (0, 3) or min(self.deviation, default=1) <= 0:
            raise UserError("mean and deviation are three numbers each, for red, green and blue, or none")

    @property
    def pretrained(self) -> bool:
        """Whether others have trained the network, or given features stand for images."""
        return is_pretrained(self.network, self.weights)


@dataclass(frozen=True)
class WhitenedSettings(BackboneSettings):
    """Which network that others have trained, and the whitening of its features."""

    whitening: WhiteningSettings = WhiteningSettings()


class BackboneMethod(Method):
    """A method whose settings name a pretrained network (``BackboneSettings``), in ``whitening`` how its features are
    whitened, and in ``tune.blocks`` how many of its last blocks learn on; without these settings neither is done."""

    @property
    def blocks(self) -> int:
        """How many of the network's last blocks learn on."""
        return self.settings.tune.blocks if hasattr(self.settings, "tune") else 0

    @classmethod
    def fitted(cls, look: Look, domain: str, device: str, given: Mapping[str, Any]) -> list[Fit]:
        """The network has its own image size, and nothing depends on the images."""
        return []

    def check_settings(self) -> None:
        if not nets.is_external(self.settings.network):
            super().check_settings()
        if self.blocks:
            with torch.device("meta"):  # takes no memory
                thaw(nets.build(self.settings.network, 3, 224), self.blocks)

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

    def looks_to_tune(self) -> int:
        """How often tuning looks at every image, once the features have been read."""
        return 0

    def seconds_to_read(self, collection: Collection, engine: Engine) -> tuple[str, float]:
        """By the time that one batch takes: the network looks at images whose features are not in the cache, and to be
        tuned at all of them, as often as ``looks_to_tune`` says."""
        again = self.looks_to_tune()
        what = "reading features and tuning" if again else "reading features"
        if isinstance(collection.train, VectorStore):
            return what, 0.0
        encoder, digest = self._frozen(collection, engine)
        images = engine.train_images
        looks = len(uncomputed(images, engine.device, engine.reporter, identity=digest, cache=engine.cache))
        looks += again * len(images)
        each = seconds_per_image(encoder, images, engine.device, of=encoder.backbone_features) if looks else 0.0
        return what, looks * each

    def kept_as(self) -> str:
        chosen = self.settings
        as_pinned = not (self.blocks or chosen.mean or chosen.deviation)
        return str(chosen.digest) if as_pinned else ""

    def read(self, collection: Collection, engine: Engine, start: Model | None) -> tuple[Encoder, Tensor]:
        """The encoder, its linear layer still without meaning, and the network's features [n_train, D]."""
        if start is not None:
            name = self.settings.method
            raise UserError(f"{name} starts from a pretrained network, not from another run's model")
        channels = collection.train.shape[0]
        if isinstance(collection.train, VectorStore):
            features, zero = engine.train_images.images.flatten(1), torch.zeros(channels)
            dimension = self.dimension(features.shape)
            encoder = Encoder("features", channels, 1, zero, zero + 1, dimension=dimension, whitened=bool(dimension))
            thaw(encoder.net, self.blocks)
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

    def tuned_features(self, model: Model, engine: Engine) -> Tensor:
        """The model's features [n_train, D], which are not kept: no other run has its network."""
        images = engine.train_images
        return frozen_features(
            model, images, engine.device, engine.reporter, of=model.features, identity="", cache=None
        )

    def dimension(self, shape: Sequence[int]) -> int:
        """That of whitened features, where there are features of that shape [N, D]; 0 where they stay as they are."""
        if not hasattr(self.settings, "whitening"):
            return 0
        return max(1, min(self.settings.whitening.dimension, shape[0] - 1, shape[1]))

    def _frozen(self, collection: Collection, engine: Engine) -> tuple[Encoder, str]:
        """The encoder around the network that others have trained, and the network's digest."""
        channels, size, _ = collection.train.shape
        backbone = self._backbone(engine)
        dimension = self.dimension((len(collection.train), backbone.net.width))
        encoder = Encoder(
            backbone.network,
            channels,
            size,
            torch.tensor(backbone.mean),
            torch.tensor(backbone.deviation),
            dimension=dimension,
            resized=backbone.size,
            whitened=bool(dimension),
        )
        encoder.net.load_state_dict(backbone.net.state_dict())
        thaw(encoder.net, self.blocks)
        return encoder, backbone.digest()

    def _backbone(self, engine: Engine) -> Backbone:
        backbone = load_backbone(self.settings.network, self.settings.weights, engine.cache, self.settings.digest)
        mean, deviation = self.settings.mean or backbone.mean, self.settings.deviation or backbone.deviation
        return replace(backbone, mean=mean, deviation=deviation)


class OwnOrBackboneMethod(BackboneMethod):
    """The same where a network for which there are no weights of others is trained from the start."""

    def check_settings(self) -> None:
        if self.settings.pretrained:
            super().check_settings()
        else:
            Method.check_settings(self)

    def check_weights(self, loaded: Mapping[str, Any], *, features: bool, cache: Path) -> None:
        if self.settings.pretrained or features:
            super().check_weights(loaded, features=features, cache=cache)

    def check(self, shape: tuple[int, int, int]) -> None:
        """Images of any shape will do for a pretrained network: they are resized for it."""
        if not self.settings.pretrained:
            Method.check(self, shape)


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
