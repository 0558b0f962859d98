"""Stage II with a frozen backbone: a small head and a classifier learn from labels that prototypes give anew."""

from __future__ import annotations

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
    give each image a soft label and its weight.
    """

    name = "stage2"
    novel: Tensor
    targets: Tensor
    weights: Tensor
    allowed: Tensor

    def __init__(
        self,
        project: Whitened,
        head: CosineClassifier,
        inputs: VectorStore,
        novel: Tensor,
        collection: Collection,
        chosen: FeatureSettings,
    ) -> None:
        """``inputs`` are what goes into the linear layer of ``project``; ``novel`` [n_unlabelled] are the clusters."""
        super().__init__()
        self.linear: nn.Linear = project.linear
        self.head, self.inputs, self.chosen, self.plan = head, inputs, chosen, chosen.stage2
        self.n_labelled, self.n_novel = collection.n_labelled, collection.n_novel
        self.sampler = mixed_sampler(collection, self.plan.batch, chosen.labelled_share)
        self.views = FeatureDropout(inputs.shape[0], chosen.dropout)
        known = F.one_hot(torch.from_numpy(collection.labels[: self.n_labelled]), len(collection.classes))
        targets = torch.zeros(len(inputs), known.shape[1] + self.n_novel)
        targets[: self.n_labelled, : known.shape[1]] = known
        self.register_buffer("novel", novel.clone())
        self.register_buffer("targets", targets)
        self.register_buffer("weights", torch.ones(len(inputs)))
        self.register_buffer("allowed", allowed_categories(collection)[1], persistent=False)

    @torch.no_grad()
    def before_epoch(self, epoch: int, engine: Engine) -> None:
        features = self.features()
        similarity = features @ class_means(features, self.novel, self.n_novel).T
        soft = sinkhorn(similarity, epsilon=self.chosen.epsilon, rounds=0, allowed=self.allowed)
        self.novel.copy_(soft.argmax(1))
        self.targets[self.n_labelled :, -self.n_novel :] = soft
        prototypes = class_means(features, self.novel, self.n_novel)
        self.weights[self.n_labelled :] = rectification(features, self.novel, prototypes)

    def features(self) -> Tensor:
        """Unit features [n_unlabelled, D] as they are now: what labels and weights come from."""
        assert self.inputs is not None
        return F.normalize(self.linear(self.inputs.images.flatten(1)[self.n_labelled :]))

    def step(self, batch: Batch, t: Tensor) -> dict[str, Tensor]:
        return self.losses(self.linear(batch.views), batch.index)

    def losses(self, vectors: Tensor, index: Tensor) -> dict[str, Tensor]:
        """The scalars of a step, from what the linear layer made of the images at ``index`` [n]: [n, D]."""
        logits = self.head(vectors)
        targets, weights = self.targets[index], self.weights[index]
        agreement = (logits.argmax(1) == targets.argmax(1)).float().mean()
        loss = rectified_cross_entropy(logits, targets, weights)
        return {"loss": loss, "agreement": agreement, "weight": weights.mean()}
