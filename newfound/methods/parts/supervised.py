"""Supervised training on the labelled images: where many methods begin."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from newfound.config.settings import PlanSettings
from newfound.data.collection import Collection
from newfound.engine.sampler import labelled_sampler
from newfound.engine.stage import Batch, Stage, Views
from newfound.model import Encoder
from newfound.views.multiview import Crops


class Supervised(Stage):
    """Cross-entropy over the known categories, on labelled images alone. Of MultiViews the two whole views are used."""

    def __init__(
        self, name: str, encoder: Encoder, head: nn.Module, collection: Collection, plan: PlanSettings, views: Views
    ) -> None:
        """``head`` gives logits [n, known]; ``name`` is that of the plan in the method's settings."""
        super().__init__()
        self.name, self.encoder, self.head, self.plan, self.views = name, encoder, head, plan, views
        self.sampler = labelled_sampler(collection.labelled, plan.batch)

    def step(self, batch: Batch, t: Tensor) -> dict[str, Tensor]:
        images, labels = batch.views, batch.labels
        if isinstance(images, Crops):
            images, labels = images.whole.flatten(0, 1), labels.repeat(2)
        logits = self.head(self.encoder(images))
        right = (logits.argmax(1) == labels).float().mean()
        return {"loss": F.cross_entropy(logits.float(), labels), "accuracy": right}
