"""Train a classifier on the labelled images, then cluster the features of the unlabelled ones.

The paper's simplest row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn

from newfound.config.settings import ClusterSettings, CropSettings, PlanSettings, Settings
from newfound.data.collection import Collection
from newfound.data.look import Look
from newfound.engine.loop import Engine
from newfound.methods.base import Fit, Method, Outcome, fit_network, fit_symbols
from newfound.methods.parts.clusters import cluster_outcome
from newfound.methods.parts.encoder import make_encoder
from newfound.methods.parts.supervised import Supervised
from newfound.model import Model
from newfound.views.crop import PadCropFlip


@dataclass(frozen=True)
class KMeansSettings(Settings):
    """Settings of the k-means row."""

    method: str = "kmeans"
    views: CropSettings = CropSettings()
    stage1: PlanSettings = PlanSettings(epochs=200, batch=128)
    cluster: ClusterSettings = ClusterSettings()


class KMeans(Method):
    """Stage I on the labelled images, then one clustering of the unlabelled ones of each task."""

    Settings = KMeansSettings
    reference = "A baseline: the simplest row of the tables of Zhang et al. (apl)"
    year = 2024
    gpu = False
    mixed = True

    def fit(self, collection: Collection, engine: Engine, start: Model | None = None) -> Outcome:
        encoder = make_encoder(self.settings.network, collection, start)
        views = PadCropFlip(self.settings.views.pad, self.settings.views.flip, self.settings.views.fill)
        head = nn.Linear(encoder.width, len(collection.classes))
        engine.train(Supervised("stage1", encoder, head, collection, self.settings.stage1, views))
        return cluster_outcome(encoder, collection, self.settings.cluster, engine, method="kmeans")

    @classmethod
    def fitted(cls, look: Look, domain: str, device: str, given: Mapping[str, Any]) -> list[Fit]:
        fits = [*fit_network(look, domain, device, given), *super().fitted(look, domain, device, given)]
        if domain == "symbolic":
            fits.append(Fit({"views.flip": False}))  # a mirrored character is another one
            fits += fit_symbols(look, given)
        return fits
