"""Train a classifier on the labelled images, then cluster the features of the unlabelled ones.

The paper's simplest row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from newfound.config.choice import Choice
from newfound.config.settings import ClusterSettings, CropSettings, PlanSettings, Settings
from newfound.data.collection import Collection
from newfound.data.look import Look
from newfound.engine.loop import Engine
from newfound.engine.sampler import labelled_sampler
from newfound.engine.stage import Batch, Stage
from newfound.methods.base import Fit, Method, Outcome, fit_background
from newfound.methods.parts.clusters import cluster_outcome
from newfound.methods.parts.encoder import make_encoder
from newfound.model import Encoder, Model
from newfound.views.crop import PadCropFlip

NETWORKS = {"natural": "tiny", "symbolic": "vgg6"}
"""What is trained on a CPU: vgg6 keeps the places of strokes, which tiny averages away."""


@dataclass(frozen=True)
class KMeansSettings(Settings):
    """Settings of the k-means row."""

    method: str = "kmeans"
    views: CropSettings = CropSettings()
    stage1: PlanSettings = PlanSettings(epochs=200, batch=128)
    cluster: ClusterSettings = ClusterSettings()


class Supervised(Stage):
    """Cross-entropy over the known categories, on labelled images alone."""

    name = "stage1"

    def __init__(self, encoder: Encoder, collection: Collection, settings: KMeansSettings) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = nn.Linear(encoder.width, len(collection.classes))
        self.plan = settings.stage1
        self.views = PadCropFlip(settings.views.pad, settings.views.flip, settings.views.fill)
        self.sampler = labelled_sampler(collection.labelled, self.plan.batch)

    def step(self, batch: Batch, t: Tensor) -> dict[str, Tensor]:
        logits = self.head(self.encoder(batch.views))
        right = (logits.argmax(1) == batch.labels).float().mean()
        return {"loss": F.cross_entropy(logits.float(), batch.labels), "accuracy": right}


class KMeans(Method):
    """Stage I on the labelled images, then one clustering of the unlabelled ones of each task."""

    Settings = KMeansSettings

    def fit(self, collection: Collection, engine: Engine, start: Model | None = None) -> Outcome:
        encoder = make_encoder(self.settings.network, collection, start)
        engine.train(Supervised(encoder, collection, self.settings))
        return cluster_outcome(encoder, collection, self.settings.cluster, engine, method="kmeans")

    @classmethod
    def fitted(cls, look: Look, domain: str, device: str, given: Mapping[str, Any]) -> list[Fit]:
        fits = []
        if device == "cpu" and "network" not in given:
            network = NETWORKS[domain]
            fits.append(Fit({"network": network}, Choice("network", network, "small enough to train without a GPU")))
        fits += super().fitted(look, domain, device, given)
        if domain == "symbolic":
            if "views.fill" not in given:
                fits.append(fit_background(look, "views.fill"))
            fits.append(Fit({"views.flip": False}))  # a mirrored character is another one
            if "cluster.algorithm" not in given:
                why = "symbols vary along curves"
                fits.append(Fit({"cluster.algorithm": "spectral"}, Choice("clustering", "spectral", why)))
        return fits
