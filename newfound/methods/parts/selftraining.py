"""Stage II, prototypical self-training: one classifier over old and new, from rectified pseudo labels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from newfound.data.collection import Collection
from newfound.engine.loop import Engine
from newfound.engine.sampler import mixed_sampler
from newfound.engine.stage import Batch, Stage, decay_groups
from newfound.losses import rectified_cross_entropy
from newfound.methods.base import Outcome
from newfound.methods.parts.labels import class_means, joint_labels, rectification
from newfound.methods.parts.outcome import read_outcome
from newfound.methods.parts.prototypical import PrototypicalSettings
from newfound.methods.parts.tasks import novel_names
from newfound.methods.parts.views import make_views
from newfound.model import Encoder, Model
from newfound.nets.heads import Classifier, CosineClassifier, classifier

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
        chosen: PrototypicalSettings,
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


def self_train(outcome: Outcome, collection: Collection, engine: Engine, chosen: PrototypicalSettings) -> Outcome:
    """Iterations of self-training, each from the labels that the one before gives, the first from the ``outcome``'s.
    Trains the encoder of the outcome on."""
    n, first = len(collection.classes) + collection.n_novel, collection.n_labelled
    encoder, earlier, before = outcome.model.encoder, outcome.earlier, outcome.features
    for number in range(1, chosen.selftraining.iterations + 1):
        features = outcome.features
        assert features is not None
        labels = joint_labels(engine, outcome.assignments)
        prototypes = class_means(features, labels, n)
        if number == 1:
            head = classifier(chosen.classifier, encoder.width, n)
            if chosen.selftraining.start == "prototypes":
                start_from(head, prototypes, features)
        weights = rectification(features, labels, prototypes)
        weights[:first] = 1
        engine.train(SelfTraining(number, encoder, head, collection, chosen, labels, weights))
        unit, names = isinstance(head, CosineClassifier), (collection.classes, novel_names(collection))
        model = Model(encoder, head, *names, method=chosen.method, unit_features=unit)
        outcome = read_outcome(model, collection, engine)
        earlier = earlier | {f"stage2-{number}": outcome.assignments}
        figures = {"mean_weight": float(weights[first:].mean())}
        outcome = replace(outcome, figures=figures, earlier=earlier, features_before_stage2=before)
    return outcome
