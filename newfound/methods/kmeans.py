"""Train a classifier on the labelled images, then cluster the features of the unlabelled ones.

The paper's simplest row. Over a network that others have trained, or over given features, nothing is trained.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from newfound.cluster.chosen import cluster
from newfound.config.settings import ClusterSettings, CropSettings, DataSettings, PlanSettings
from newfound.data.collection import Collection
from newfound.data.look import Look
from newfound.engine.loop import Engine
from newfound.methods.base import Fit, Outcome, fit_network, fit_size, fit_symbols
from newfound.methods.parts.backbone import BackboneSettings, OwnOrBackboneMethod
from newfound.methods.parts.clusters import cluster_outcome
from newfound.methods.parts.encoder import make_encoder
from newfound.methods.parts.supervised import Supervised
from newfound.model import Model
from newfound.nets.pretrained import is_pretrained
from newfound.views.crop import PadCropFlip

STARTS = 5
"""Of k-means in a rehearsal, which is quick rather than exact."""


@dataclass(frozen=True)
class KMeansSettings(BackboneSettings):
    """Settings of the k-means row. A ``network`` for which there are no ``weights`` of others is trained from the
    start."""

    method: str = "kmeans"
    network: str = "resnet18"
    data: DataSettings = DataSettings()
    views: CropSettings = CropSettings()
    """Of images, for a network that is trained from the start."""
    stage1: PlanSettings = PlanSettings(epochs=200, batch=128)
    cluster: ClusterSettings = ClusterSettings()

    def left_out(self) -> dict[str, str]:
        return {"stage1": "network is one that others have trained"} if self.pretrained else {}


class KMeans(OwnOrBackboneMethod):
    """Stage I on the labelled images, unless others have trained the network; then one clustering of the unlabelled
    ones of each task."""

    Settings = KMeansSettings
    reference = "A baseline: the simplest row of the tables of Zhang et al. (apl)"
    year = 2024
    gpu = False
    takes = frozenset({"images", "features", "backbone"})
    mixed = True

    def __init__(self, settings: KMeansSettings) -> None:
        super().__init__(settings)
        if settings.pretrained:  # the network stays as it is: labels teach it nothing
            self.stretched, self.goes_on, self.taught = "", False, False

    def fit(self, collection: Collection, engine: Engine, start: Model | None = None) -> Outcome:
        chosen: KMeansSettings = self.settings
        if chosen.pretrained:
            encoder, features = self.read(collection, engine, start)
            outcome = cluster_outcome(encoder, collection, chosen.cluster, engine, method="kmeans", features=features)
            return replace(outcome, backbone_features=features)
        encoder = make_encoder(chosen.network, collection, start)
        views = PadCropFlip(chosen.views.pad, chosen.views.flip, chosen.views.fill)
        head = nn.Linear(encoder.width, len(collection.classes))
        engine.train(Supervised("stage1", encoder, head, collection, chosen.stage1, views))
        return cluster_outcome(encoder, collection, chosen.cluster, engine, method="kmeans")

    @classmethod
    def fitted(cls, look: Look, domain: str, device: str, given: Mapping[str, Any]) -> list[Fit]:
        """Nothing of a pretrained network depends on the images."""
        if is_pretrained(str(given.get("network", "")), given.get("weights")):
            return []
        fits = fit_network(look, domain, device, given)
        fits += [] if "data.size" in given else [fit_size(look, domain, device)]
        if domain == "symbolic":
            fits.append(Fit({"views.flip": False}))  # a mirrored character is another one
            fits += fit_symbols(look, given)
        return fits

    def regroup(self, features: Tensor, labels: Tensor, k: int, seed: int) -> tuple[Tensor, Tensor]:
        """The same clustering, from fewer starts."""
        chosen: ClusterSettings = self.settings.cluster
        pile = F.normalize(features[len(labels) :]) if chosen.normalise else features[len(labels) :]
        return cluster(pile, k, replace(chosen, starts=min(STARTS, chosen.starts)), seed).labels, pile
