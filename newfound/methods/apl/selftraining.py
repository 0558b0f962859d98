"""Stage II, prototypical self-training: one classifier over old and new, from rectified pseudo labels."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from newfound.data.collection import Collection
from newfound.engine.sampler import mixed_sampler
from newfound.engine.stage import Batch, Stage, decay_groups
from newfound.losses import rectified_cross_entropy
from newfound.methods.apl.settings import APLSettings
from newfound.methods.parts.views import make_views
from newfound.model import Encoder
from newfound.nets.heads import Classifier, CosineClassifier

SHARPNESS = 10.0
"""Logits of a linear classifier that begins as prototypes, for each unit of cosine: a cosine classifier's at its usual
temperature."""


class SelfTraining(Stage):
    """One iteration of stage II (the paper's equations 9 to 11): labels and weights stay as they are during it."""

    labels: Tensor
    weights: Tensor

    def __init__(
        self,
        number: int,
        encoder: Encoder,
        head: nn.Module,
        collection: Collection,
        chosen: APLSettings,
        labels: Tensor,
        weights: Tensor,
    ) -> None:
        """``labels`` [n_train] count old and new categories together; ``weights`` [n_train] are 1 where labels are
        given."""
        super().__init__()
        self.name = f"stage2-{number}"
        self.encoder, self.head, self.chosen, self.plan = encoder, head, chosen, chosen.stage2
        self.sampler = mixed_sampler(collection, self.plan.batch, chosen.labelled_share)
        self.views = make_views(chosen.views, encoder.size, extra=0)
        self.register_buffer("labels", labels)
        self.register_buffer("weights", weights)

    @property
    def settings_key(self) -> str:
        return "stage2"

    def parameter_groups(self) -> list[dict[str, Any]]:
        """The encoder learns at ``backbone_lr`` times the head's rate."""
        scale = self.chosen.selftraining.backbone_lr
        slow = [{**group, "lr_scale": scale} for group in decay_groups(self.encoder, self.plan)]
        return [*slow, *decay_groups(self.head, self.plan)]

    def step(self, batch: Batch, t: Tensor) -> dict[str, Tensor]:
        logits = self.head(self.encoder(batch.views.whole.flatten(0, 1))).float()
        index = batch.index.repeat(2)
        labels, weights = self.labels[index], self.weights[index]
        agreement = (logits.argmax(1) == labels).float().mean()
        loss = rectified_cross_entropy(logits, labels, weights)
        return {"loss": loss, "agreement": agreement, "weight": weights.mean()}


@torch.no_grad()
def start_from(head: Classifier, prototypes: Tensor, features: Tensor) -> None:
    """Initialise the classifier from unit ``prototypes`` [C, D], so that it ranks ``features`` [N, D] by their cosines.

    A linear classifier takes all features to be as long as they are in the mean. The rows of empty categories, whose
    prototype is 0, stay as they are.
    """
    scale = 1.0 if isinstance(head, CosineClassifier) else SHARPNESS / float(features.norm(dim=1).mean())
    rows = head.rows.to(prototypes.device)
    head.rows.copy_(torch.where(prototypes.norm(dim=1, keepdim=True) > 0, scale * prototypes, rows))
