"""Stage II with a frozen backbone: a small head and a classifier learn from labels that prototypes give anew."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from newfound.data.collection import Collection
from newfound.data.vectors import VectorStore
from newfound.engine.loop import Engine
from newfound.engine.sampler import mixed_sampler
from newfound.engine.stage import Batch, Stage
from newfound.losses import rectified_cross_entropy
from newfound.losses.sinkhorn import sinkhorn
from newfound.methods.apl_features.settings import FeatureSettings
from newfound.methods.parts.labels import class_means, rectification
from newfound.methods.parts.tasks import allowed_categories
from newfound.nets.heads import CosineClassifier, Whitened
from newfound.views.dropout import FeatureDropout


class HeadTraining(Stage):
    """Prototypical self-training (the paper's equations 9 to 11) over features that were computed once.

    Before every epoch prototypes are the means of the unlabelled images under their labels of the epoch before, and
    give each image a soft label and its weight. In a mixed pile known categories have prototypes, too, to which their
    labelled images belong.
    """

    name = "stage2"
    found: Tensor
    targets: Tensor
    weights: Tensor
    allowed: Tensor

    def __init__(
        self,
        project: Whitened,
        head: CosineClassifier,
        inputs: VectorStore,
        found: Tensor,
        collection: Collection,
        chosen: FeatureSettings,
    ) -> None:
        """``inputs`` are what goes into the linear layer of ``project``; ``found`` [n_unlabelled] are the categories
        by clusters, counted from the first candidate."""
        super().__init__()
        self.linear: nn.Linear = project.linear
        self.head, self.inputs, self.chosen, self.plan = head, inputs, chosen, chosen.stage2
        self.n_labelled, self.n_found, self.mixed = collection.n_labelled, len(collection.candidates), collection.mixed
        self.sampler = mixed_sampler(collection, self.plan.batch, chosen.labelled_share)
        self.views = FeatureDropout(inputs.shape[0], chosen.dropout)
        known = F.one_hot(torch.from_numpy(collection.labels[: self.n_labelled]), len(collection.classes))
        targets = torch.zeros(len(inputs), known.shape[1] + collection.n_novel)
        targets[: self.n_labelled, : known.shape[1]] = known
        self.register_buffer("found", found.clone())
        self.register_buffer("targets", targets)
        self.register_buffer("weights", torch.ones(len(inputs)))
        self.register_buffer("allowed", allowed_categories(collection)[1], persistent=False)

    @torch.no_grad()
    def before_epoch(self, epoch: int, engine: Engine) -> None:
        features = self.features()
        pile = features[self.n_labelled :]
        similarity = pile @ self._prototypes(features).T
        soft = sinkhorn(similarity, epsilon=self.chosen.epsilon, rounds=0, allowed=self.allowed)
        self.found.copy_(soft.argmax(1))
        self.targets[self.n_labelled :, -self.n_found :] = soft
        self.weights[self.n_labelled :] = rectification(pile, self.found, self._prototypes(features))

    def _prototypes(self, features: Tensor) -> Tensor:
        """Those of the candidates [candidates, D], from features [n_train, D]."""
        if not self.mixed:
            return class_means(features[self.n_labelled :], self.found, self.n_found)
        labels = torch.cat([self.targets[: self.n_labelled].argmax(1), self.found])
        return class_means(features, labels, self.n_found)

    def features(self) -> Tensor:
        """Unit features [n_train, D] as they are now: what labels and weights come from."""
        assert self.inputs is not None
        return F.normalize(self.linear(self.inputs.images.flatten(1)))

    @torch.no_grad()
    def snapshot(self, rows: np.ndarray, engine: Engine) -> Tensor:
        return self.features()[torch.from_numpy(rows)]

    def step(self, batch: Batch, t: Tensor) -> dict[str, Tensor]:
        return self.losses(self.linear(batch.views), batch.index)

    def losses(self, vectors: Tensor, index: Tensor) -> dict[str, Tensor]:
        """The scalars of a step, from what the linear layer made of the images at ``index`` [n]: [n, D]."""
        logits = self.head(vectors)
        targets, weights = self.targets[index], self.weights[index]
        agreement = (logits.argmax(1) == targets.argmax(1)).float().mean()
        loss = rectified_cross_entropy(logits, targets, weights)
        return {"loss": loss, "agreement": agreement, "weight": weights.mean()}
