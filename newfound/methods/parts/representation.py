"""Stage I, prototypical representation learning: tell instances apart, and categories, old and new, at once."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from newfound.data.collection import Collection
from newfound.engine.device import SideStream
from newfound.engine.loop import Engine
from newfound.engine.sampler import mixed_sampler
from newfound.engine.stage import Batch, Stage, decay_groups
from newfound.losses import separation, soft_cross_entropy
from newfound.losses.prototypes import OnlinePrototypes
from newfound.methods.instance.base import InstanceLearner, Looking
from newfound.methods.instance.chosen import make_learner
from newfound.methods.parts.labels import one_hot
from newfound.methods.parts.prototypical import PrototypicalSettings
from newfound.methods.parts.shares import due, estimated_shares
from newfound.methods.parts.tasks import allowed_categories, first_candidate
from newfound.methods.parts.views import learner_views
from newfound.model import Encoder
from newfound.nets.heads import classifier
from newfound.views.multiview import Crops

COLLAPSED = 0.3
"""Entropy of the pseudo labels in a batch, relative to that of equal shares, below which a run has collapsed."""

ONE = 0.95
"""Mean cosine of a prototype to the nearest other above which they are one, when half of the epochs are over. Before, a
sound run may be there too: with soft labels on the digits, for a sixth of its epochs."""


class Representation(Stage):
    """L_s1 = L_ins + L_cls + lambda L_pas (the paper's equations 1, 2, 5, 7 and 8)."""

    name = "stage1"
    bank: Tensor
    allowed: Tensor
    task_of: Tensor
    shares: Tensor

    def __init__(self, encoder: Encoder, collection: Collection, chosen: PrototypicalSettings) -> None:
        super().__init__()
        self.encoder, self.chosen, self.plan = encoder, chosen, chosen.stage1
        self.views = learner_views(chosen.views, encoder.size, chosen.instance.learner)
        self.sampler = mixed_sampler(collection, self.plan.batch, chosen.labelled_share)
        self.n_labelled, self.n_all = collection.n_labelled, len(collection.classes) + collection.n_novel
        self.first, self.n_found = first_candidate(collection), len(collection.candidates)
        self.mixed = collection.mixed
        self._epoch = 0  # for warnings alone
        self.learner: InstanceLearner | None = None
        if chosen.instance.learner != "none":
            steps = self.sampler.steps * self.plan.epochs
            self.learner = make_learner(chosen.instance.learner, encoder, chosen, steps)
        if chosen.category:
            self.classifier = classifier(chosen.classifier, encoder.width, self.n_all)
        if self.online:
            found = self.classifier.rows.detach()[self.first :]
            options = {name: getattr(chosen.prototypes, name) for name in ("momentum", "similarity", "update")}
            self.prototypes = OnlinePrototypes(found, **options)
            self.register_buffer("bank", torch.zeros(collection.n_unlabelled, encoder.width))
            task_of, allowed = allowed_categories(collection)
            self.register_buffer("task_of", task_of, persistent=False)
            self.register_buffer("allowed", allowed, persistent=False)
            if self.mixed:
                self.register_buffer("shares", torch.full((self.n_found,), 1 / self.n_found))

    @property
    def online(self) -> bool:
        return self.chosen.category and self.chosen.online

    def parameter_groups(self) -> list[dict[str, Any]]:
        apart = self.learner.groups() if self.learner else []
        return [*decay_groups(self, self.plan, leave_out=[p for group in apart for p in group["params"]]), *apart]

    def before_epoch(self, epoch: int, engine: Engine) -> None:
        self._epoch = epoch
        if self.online and self.mixed and due(epoch, self.plan.epochs):
            self.shares.copy_(estimated_shares(self.encoder, engine))
        if epoch == 0 and self.online and self.chosen.prototypes.balance == "bank":
            images = engine.train_images.take(engine.collection.unlabelled)
            self.bank.copy_(engine.features(self.encoder, images, title="filling the bank"))

    def step(self, batch: Batch, t: Tensor) -> dict[str, Tensor]:
        crops: Crops = batch.views
        whole = crops.whole.flatten(0, 1)
        parts: dict[str, Tensor] = {}
        if self.learner:
            looked = Looking(self.learner, crops, t)
        features = self.encoder(whole)
        if self.online:
            with SideStream("labels", whole) as labeller:
                source, targets, figures = self._label(batch, features.detach().float(), t)
        if self.learner:
            parts |= self.learner.loss(self.encoder, features, crops, looked, t) | looked.figures()
        if self.online:
            labeller.join(source, targets, *figures.values())
            parts |= self._category(batch, features.float(), source, targets) | figures
        elif self.chosen.category:
            parts["cls"] = self._supervised(batch, features.float())
        weights = {"ins": 1.0, "cls": 1.0, "pas": self.chosen.prototypes.separation}
        total = torch.stack([weights[name] * parts[name] for name in weights if name in parts]).sum()
        return {"loss": total, **parts}

    def _supervised(self, batch: Batch, features: Tensor) -> Tensor:
        """The cross-entropy of labelled images alone, from features [2n, D]."""
        logits = self.classifier(features).float().unflatten(0, (2, -1))
        truth = one_hot(batch.labels[: batch.n_known], self.n_all)
        return soft_cross_entropy(logits[:, : batch.n_known], truth)

    @torch.no_grad()
    def _label(self, batch: Batch, source: Tensor, t: Tensor) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """What labels the unlabelled images, features [V n, D]; their labels [V n, K]; and figures to watch.

        Labels come from ``source``, features [2n, D]. An image has one for both whole views (V = 1), or one for each.
        """
        source = self._labelling(source)[:, batch.n_known :].flatten(0, 1)
        targets, figures = self._assign(source, batch.index[batch.n_known :] - self.n_labelled, t)
        return source, targets, figures

    def _category(self, batch: Batch, features: Tensor, source: Tensor, targets: Tensor) -> dict[str, Tensor]:
        """L_cls over old and new categories and L_pas, from features [2n, D] and what ``_label`` gave."""
        n, known = len(batch.labels), batch.n_known
        logits = self.classifier(features).float().unflatten(0, (2, n))
        truth = one_hot(batch.labels[:known], self.n_all)
        views = self._labelling(features)
        features = views[:, known:].flatten(0, 1)
        found = F.pad(targets, (self.first, 0)).unflatten(0, (-1, n - known))
        labels = torch.cat([truth.expand(len(found), -1, -1), found], dim=1)
        members = one_hot(targets.argmax(1), self.n_found) if self.chosen.prototypes.follow == "hard" else targets
        if self.mixed:  # prototypes of known categories follow their labelled images, too
            own = one_hot(batch.labels[:known], self.n_found).repeat(len(views), 1)
            labelled = views[:, :known].flatten(0, 1)
            features, source = torch.cat([labelled, features]), torch.cat([labelled.detach(), source])
            members = torch.cat([own, members])
        self.prototypes.update(source, members)
        separated = self.prototypes.straight_through(features, members)
        return {"cls": soft_cross_entropy(logits, labels), "pas": separation(separated, self.task_of)}

    def _labelling(self, features: Tensor) -> Tensor:
        """Features [V, n, D] that label images, from those [2n, D] of their two whole views: V is 2 where each view
        has a label of its own, else 1."""
        if self.chosen.prototypes.similarity == "cosine":
            features = F.normalize(features)
        views = features.unflatten(0, (2, -1))
        return views if self.chosen.prototypes.labels_from == "swapped" else views.mean(0, keepdim=True)

    @torch.no_grad()
    def _assign(self, source: Tensor, rows: Tensor, t: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Online pseudo labels [V n, K] of unlabelled images, and figures that show a collapse; from features [V n, D].

        Where there are two views an image, each has the label that the other's feature gives it.
        """
        if len(source) == len(rows):
            targets = self._targets(source, rows, t)
        else:
            first, second = source.unflatten(0, (2, -1))
            targets = torch.cat([self._targets(view, rows, t) for view in (second, first)])
            if self.chosen.prototypes.balance == "bank":
                self.bank[rows] = (first + second) / 2
        similarity = self.prototypes.similarities(source)
        share = targets.mean(0)
        entropy = -(share * share.clamp(min=1e-12).log()).sum() / math.log(max(2, min(len(share), len(source))))
        reach = (similarity.amax(1) - similarity.amin(1)).mean()
        sure = targets.amax(1).mean()
        return targets, {"label_entropy": entropy, "label_certainty": sure, "similarity_range": reach}

    def _targets(self, source: Tensor, rows: Tensor, t: Tensor) -> Tensor:
        """The labels [n, K] that features [n, D] give the unlabelled images ``rows`` [n]."""
        chosen = self.chosen.prototypes
        options: dict[str, Any] = {"soft": chosen.soft, "epsilon": chosen.epsilon, "rounds": chosen.rounds}
        options["columns"] = self.shares if self.mixed else None
        if chosen.balance == "bank":
            self.bank[rows] = source
            return self.prototypes.assign(self.bank, balanced=True, allowed=self.allowed, **options)[rows]
        allowed = self.allowed[rows]
        balanced = self.prototypes.assign(source, balanced=True, allowed=allowed, **options)
        if chosen.balance == "batch":
            return balanced
        plain = self.prototypes.assign(source, balanced=False, allowed=allowed, **options)
        return torch.where(t % self.sampler.steps == 0, balanced, plain)

    def after_step(self, t: Tensor) -> None:
        if self.learner:
            self.learner.after_step(self.encoder, t)

    def warning(self, figures: dict[str, float]) -> str | None:
        if self.online and self.n_found > 1 and figures["label_entropy"] < COLLAPSED:
            remedy = "prototypes.balance=bank" if self.chosen.prototypes.balance != "bank" else "prototypes.soft=true"
            return f"nearly all unlabelled images have one pseudo label; try {remedy}"
        if self.online and self._prototypes_are_one(figures["pas"]):
            softly = self.chosen.prototypes.soft and self.chosen.prototypes.follow == "soft"
            remedy = "prototypes.follow=hard" if softly else "a larger prototypes.separation"
            return f"the prototypes are almost one (cosine to the nearest other: {figures['pas']:.3f}); try {remedy}"
        return self.learner.warning(figures) if self.learner else None

    def _prototypes_are_one(self, pas: float) -> bool:
        """Whether only balancing still tells them apart: labels then have equal shares, and their entropy is fine.

        Unknown where lengths tell prototypes apart too.
        """
        known = self.chosen.prototypes.similarity == "cosine"
        return known and self._epoch >= self.plan.epochs / 2 and pas > ONE

    @torch.no_grad()
    def online_labels(self, features: Tensor) -> Tensor:
        """The nearest prototype [n_unlabelled], of the image's own task, of features [n_unlabelled, D]."""
        return self.prototypes.similarities(features).masked_fill(~self.allowed, -math.inf).argmax(1)
