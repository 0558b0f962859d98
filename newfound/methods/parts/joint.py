"""One classifier over old and new categories, for methods that find the new ones by themselves."""

from __future__ import annotations

import numpy as np
import torch.nn.functional as F
from torch import Tensor

from newfound.config.settings import PlanSettings
from newfound.data.collection import Collection
from newfound.engine.loop import Engine
from newfound.engine.sampler import mixed_sampler
from newfound.engine.stage import Batch, Stage, Views
from newfound.methods.base import Outcome
from newfound.methods.parts.labels import joint_labels
from newfound.methods.parts.tasks import novel_names
from newfound.model import Encoder, Model
from newfound.nets.heads import LinearClassifier


class Joint(Stage):
    """Cross-entropy of one linear classifier: to the labels of labelled images, and to what was found for the others.

    The published codes of KCL, MCL and DTC have no classifier over old and new categories; this one is ours.
    """

    name = "joint"
    labels: Tensor

    def __init__(
        self, encoder: Encoder, head: LinearClassifier, collection: Collection, plan: PlanSettings, views: Views,
        labels: Tensor,
    ) -> None:  # fmt: skip
        """``labels`` [n_train] count old and new categories together; ``views`` give one view an image."""
        super().__init__()
        self.encoder, self.head, self.plan, self.views = encoder, head, plan, views
        self.sampler = mixed_sampler(collection, plan.batch)
        self.register_buffer("labels", labels)

    def step(self, batch: Batch, t: Tensor) -> dict[str, Tensor]:
        logits, labels = self.head(self.encoder(batch.views)).float(), self.labels[batch.index]
        agreement = (logits.argmax(1) == labels).float().mean()
        return {"loss": F.cross_entropy(logits, labels), "agreement": agreement}


def joint_epochs(plan: PlanSettings, collection: Collection) -> float:
    """How long the plan of that stage takes, in epochs over the unlabelled images alone: its own have all images."""
    return plan.epochs * len(collection.labels) / collection.n_unlabelled


def joint_outcome(
    encoder: Encoder, found: np.ndarray, confidence: np.ndarray, collection: Collection, plan: PlanSettings,
    views: Views, engine: Engine, *, method: str,
) -> Outcome:  # fmt: skip
    """The outcome of categories ``found`` [n_unlabelled], counted into old and new, with the ``confidence`` of each:
    the encoder goes on learning, with a classifier over all of them."""
    head = LinearClassifier(encoder.width, len(collection.classes) + collection.n_novel)
    engine.train(Joint(encoder, head, collection, plan, views, joint_labels(engine, found)))
    model = Model(encoder, head, collection.classes, novel_names(collection), method=method)
    features = engine.features(model, engine.train_images, title="reading features", of=model.features)
    return Outcome(model, found, confidence, features=features)
