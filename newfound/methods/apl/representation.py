"""Stage I, prototypical representation learning: tell instances apart, and categories, old and new, at once."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from newfound.config.settings import APLSettings
from newfound.data.collection import Collection
from newfound.engine.device import Beside
from newfound.engine.loop import Engine
from newfound.engine.sampler import mixed_sampler
from newfound.engine.schedule import cosine, value_at
from newfound.engine.stage import Batch, Stage, decay_groups
from newfound.losses import separation
from newfound.losses.prototypes import OnlinePrototypes
from newfound.methods.base import by_task, of_own_task
from newfound.methods.instance.dino import SelfDistillation
from newfound.methods.kmeans import find_clusters
from newfound.model import Encoder
from newfound.nets.heads import classifier
from newfound.views.multiview import Crops, MultiViews
from newfound.views.natural import natural_views
from newfound.views.symbolic import symbolic_views

COLLAPSED = 0.3
"""Entropy of the pseudo labels in a batch, relative to that of equal shares, below which a run has collapsed."""

ONE = 0.95
"""Mean cosine of a prototype to the nearest other above which they are one, when half of the epochs are over. Before, a
sound run may be there too: with soft labels on the digits, for a sixth of its epochs."""


def stage1_views(chosen: APLSettings, size: int, **more: Any) -> MultiViews:
    """The views of the settings with ``more`` over them; what they leave open is the domain's."""
    plain = {name: getattr(chosen.views, name) for name in chosen.views.__dataclass_fields__ if name != "domain"}
    changes = {name: value for name, value in plain.items() if value is not None} | more
    return (natural_views if chosen.views.domain == "natural" else symbolic_views)(size, **changes)


class Representation(Stage):
    """L_s1 = L_ins + L_cls + lambda L_pas (the paper's equations 1, 2, 5, 7 and 8)."""

    name = "stage1"
    bank: Tensor
    allowed: Tensor
    task_of: Tensor
    epsilon: Tensor
    seen: Tensor
    first_labels: Tensor

    def __init__(self, encoder: Encoder, collection: Collection, chosen: APLSettings, engine: Engine) -> None:
        super().__init__()
        self.encoder, self.chosen, self.plan = encoder, chosen, chosen.stage1
        self.views = stage1_views(chosen, encoder.size)
        self.sampler = mixed_sampler(collection, self.plan.batch, chosen.labelled_share)
        self.n_labelled, self.n_known, self.n_novel = collection.n_labelled, len(collection.classes), collection.n_novel
        self._engine = [engine]  # in a list: it is no part of this module's state
        self._epoch = 0  # for warnings alone
        self.begin = round(chosen.prototypes.begin * self.plan.epochs)
        steps = self.sampler.steps * self.plan.epochs
        if chosen.instance:
            self.instance = SelfDistillation(encoder, encoder.width, chosen.dino, steps, self.plan.epochs)
        if chosen.category:
            kind, temperature = chosen.classifier.kind, chosen.classifier.temperature
            self.classifier = classifier(kind, encoder.width, self.n_known + self.n_novel, temperature)
        if self.online:
            novel = self.classifier.rows.detach()[self.n_known :]
            options = {name: getattr(chosen.prototypes, name) for name in ("momentum", "similarity", "update")}
            self.prototypes = OnlinePrototypes(novel, **options)
            self.register_buffer("bank", torch.zeros(collection.n_unlabelled, encoder.width))
            task_of, allowed = of_own_task(collection)
            self.register_buffer("task_of", task_of, persistent=False)
            self.register_buffer("allowed", allowed, persistent=False)
            self._register_label_options(collection, steps)

    def _register_label_options(self, collection: Collection, steps: int) -> None:
        """What only some settings ask for; drawn here, since a captured step cannot draw on the host."""
        chosen = self.chosen.prototypes
        if chosen.final_epsilon is not None:
            schedule = torch.from_numpy(cosine(chosen.epsilon, chosen.final_epsilon, steps)).float()
            self.register_buffer("epsilon", schedule, persistent=False)
        if chosen.newest:
            self.register_buffer("seen", torch.full((collection.n_unlabelled,), -chosen.newest))
        if chosen.first == "random":
            labels = random_balanced(collection, self._engine[0].generator(self.name, "first labels"))
            self.register_buffer("first_labels", labels, persistent=False)

    @property
    def online(self) -> bool:
        return self.chosen.category and self.chosen.online

    def parameter_groups(self) -> list[dict[str, Any]]:
        if not self.chosen.instance:
            return decay_groups(self, self.plan)
        last = self.instance.head.last.weight
        groups = decay_groups(self, self.plan, leave_out=last)
        return [*groups, {"params": [last], "weight_decay": 0.0, "frozen_epochs": self.chosen.dino.frozen_epochs}]

    def before_epoch(self, epoch: int) -> None:
        self._epoch = epoch
        filled, begins = epoch == 0 and self.chosen.prototypes.balance == "bank", 0 < epoch == self.begin
        if not self.online or not (filled or begins):
            return
        engine = self._engine[0]
        images = engine.train_images.take(engine.collection.unlabelled)
        features = engine.features(self.encoder, images, title="filling the bank")
        self.bank.copy_(features)
        if begins:
            near = F.normalize(features) if self.chosen.cluster.normalise else features
            labels, _, _ = find_clusters(near, engine.collection, self.chosen.cluster, engine)
            self.prototypes.restart(features, one_hot(labels, self.n_novel))

    def step(self, batch: Batch, t: Tensor) -> dict[str, Tensor]:
        crops: Crops = batch.views
        whole = crops.whole.flatten(0, 1)
        parts: dict[str, Tensor] = {}
        if self.chosen.instance:
            with Beside("teacher", whole) as teacher:
                taught, outputs, watched = self.instance.teach(crops, t)
        features = self.encoder(whole)
        if self.online:
            source = features
            if self.chosen.instance and self.chosen.prototypes.features == "teacher":
                teacher.join(taught)
                source = taught
            with Beside("labels", whole) as labeller:
                labelled = self._label(batch, source.detach().float(), t)
        if self.chosen.instance:
            student = self.instance.student(self.encoder, features, crops)
            teacher.join(taught, outputs, *watched.values())
            parts |= self.instance.loss(student, outputs, t) | watched
        if self.online:
            source, targets, figures = labelled
            labeller.join(source, targets, *figures.values())
            parts |= self._category(batch, features.float(), source, targets, t) | figures
        elif self.chosen.category:
            parts["cls"] = self._supervised(batch, features.float())
        chosen = self.chosen
        weights: dict[str, Tensor | float] = {"ins": chosen.dino.weight, "cls": chosen.category_weight}
        weights["pas"] = chosen.prototypes.separation * self._begun(t)
        total = torch.stack([weights[name] * parts[name] for name in weights if name in parts]).sum()
        return {"loss": total, **parts}

    def _supervised(self, batch: Batch, features: Tensor) -> Tensor:
        """The cross-entropy of labelled images alone, from features [2n, D]."""
        known = self.sampler.pools[0].per_batch
        logits = self.classifier(features).float().unflatten(0, (2, -1))
        return cross_entropy(logits[:, :known], one_hot(batch.labels[:known], self.n_known + self.n_novel))

    @torch.no_grad()
    def _label(self, batch: Batch, source: Tensor, t: Tensor) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """What labels the unlabelled images, features [V n, D]; their labels [V n, K]; and figures to watch.

        Labels come from ``source``, features [2n, D]. An image has one for both whole views, or one for each.
        """
        known = self.sampler.pools[0].per_batch
        source = self._given(source)[:, known:].flatten(0, 1)
        targets, figures = self._assign(source, batch.index[known:] - self.n_labelled, t)
        return source, targets, figures

    def _begun(self, t: Tensor) -> Tensor | float:
        """1 from when the labels of unlabelled images count, 0 before."""
        return (t >= self.begin * self.sampler.steps).float() if self.begin else 1.0

    def _category(
        self, batch: Batch, features: Tensor, source: Tensor, targets: Tensor, t: Tensor
    ) -> dict[str, Tensor]:
        """L_cls over old and new categories and L_pas, from features [2n, D] and what ``_label`` gave."""
        n, known = len(batch.labels), self.sampler.pools[0].per_batch
        logits = self.classifier(features).float().unflatten(0, (2, n))
        truth = one_hot(batch.labels[:known], self.n_known + self.n_novel)
        features = self._given(features)[:, known:].flatten(0, 1)
        weight = self.chosen.prototypes.novel_weight * self._begun(t)
        novel = F.pad(weight * targets, (self.n_known, 0)).unflatten(0, (-1, n - known))
        labels = torch.cat([truth.expand(len(novel), -1, -1), novel], dim=1)
        members = one_hot(targets.argmax(1), self.n_novel) if self.chosen.prototypes.follow == "hard" else targets
        ema = self.chosen.prototypes.separation_of == "ema"
        moved = self.prototypes.ema(features, members) if ema else None  # before the prototypes have moved
        self.prototypes.update(source, members)
        separated = self._separated(features, members) if moved is None else moved
        return {"cls": cross_entropy(logits, labels), "pas": separation(separated, self.task_of)}

    def _given(self, features: Tensor) -> Tensor:
        """Features [V, n, D] that label images, from those [2n, D] of their two whole views: V is 2 where each view
        has a label of its own, else 1."""
        if self.chosen.prototypes.similarity == "cosine":
            features = F.normalize(features)
        views = features.unflatten(0, (2, -1))
        way = self.chosen.prototypes.labels_from
        return views if way in ("own", "swapped") else views[:1] if way == "first" else views.mean(0, keepdim=True)

    @torch.no_grad()
    def _assign(self, source: Tensor, rows: Tensor, t: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Online pseudo labels [V n, K] of unlabelled images, and figures that show a collapse; from features [V n, D].

        Where there are two views an image, each has the label that its own feature gives it, or the other's.
        """
        if len(source) == len(rows):
            targets = self._targets(source, rows, t)
        else:
            first, second = source.unflatten(0, (2, -1))
            by = (first, second) if self.chosen.prototypes.labels_from == "own" else (second, first)
            targets = torch.cat([self._targets(view, rows, t) for view in by])
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
        epsilon = chosen.epsilon if chosen.final_epsilon is None else value_at(self.epsilon, t)
        options: dict[str, Any] = {"soft": chosen.soft, "epsilon": epsilon, "rounds": chosen.rounds}
        if chosen.balance == "bank":
            self.bank[rows], allowed = source, self.allowed
            if chosen.newest:
                self.seen[rows] = t
                allowed = allowed & (t - self.seen < chosen.newest)[:, None]
            return self.prototypes.assign(self.bank, balanced=True, allowed=allowed, **options)[rows]
        allowed = self.allowed[rows]
        if chosen.first == "random":
            balanced = one_hot(self.first_labels[rows], self.n_novel)
        else:
            balanced = self.prototypes.assign(source, balanced=True, allowed=allowed, **options)
        plain = self.prototypes.assign(source, balanced=False, allowed=allowed, **options)
        first = {"batch": t >= 0, "first_of_epoch": t % self.sampler.steps == 0, "once": t == 0, "never": t < 0}
        return torch.where(first[chosen.balance], balanced, plain)

    def _separated(self, features: Tensor, targets: Tensor) -> Tensor:
        """The prototypes [K, D], with a gradient to what the settings say the separation moves."""
        way = self.chosen.prototypes.separation_of
        if way == "classifier":
            return self.classifier.rows[self.n_known :]
        if way == "prototypes":
            self._push_apart()
            return self.prototypes.prototypes
        return self.prototypes.straight_through(features, targets)

    def _push_apart(self) -> None:
        """A plain gradient step of the separation on the prototypes themselves, back onto the sphere."""
        with torch.enable_grad():
            free = self.prototypes.prototypes.detach().requires_grad_()
            (slope,) = torch.autograd.grad(separation(free, self.task_of), free)
        moved = free.detach() - self.chosen.prototypes.separation * slope
        self.prototypes.prototypes.copy_(F.normalize(moved))

    def after_step(self, t: Tensor) -> None:
        if self.chosen.instance:
            self.instance.after_step(self.encoder, t)

    def warning(self, figures: dict[str, float]) -> str | None:
        if self.online and self.n_novel > 1 and figures["label_entropy"] < COLLAPSED:
            return f"nearly all unlabelled images have one pseudo label; try {self._remedy()}"
        if self.online and self._prototypes_are_one(figures["pas"]):
            softly = self.chosen.prototypes.soft and self.chosen.prototypes.follow == "soft"
            remedy = "prototypes.follow=hard" if softly else "a larger prototypes.separation"
            return f"the prototypes are almost one (cosine to the nearest other: {figures['pas']:.3f}); try {remedy}"
        return self.instance.warning(figures) if self.chosen.instance else None

    def _remedy(self) -> str:
        """What helps when labels collapse."""
        chosen = self.chosen.prototypes
        if chosen.balance not in ("bank", "batch"):
            return "prototypes.balance=bank"
        return "prototypes.soft=true" if chosen.balance == "batch" or chosen.newest else "prototypes.newest=20"

    def _prototypes_are_one(self, pas: float) -> bool:
        """Whether only balancing still tells them apart: labels then have equal shares, and their entropy is fine.

        Unknown where ``pas`` is of the classifier's rows, or where lengths tell prototypes apart too.
        """
        chosen = self.chosen.prototypes
        known = chosen.similarity == "cosine" and chosen.separation_of != "classifier"
        return known and self._epoch >= self.plan.epochs / 2 and pas > ONE

    def readout(self) -> Encoder:
        """The encoder that features are read with and that training goes on from."""
        if self.chosen.readout == "teacher" and self.chosen.instance:
            teacher = self.instance.teacher[0]
            assert isinstance(teacher, Encoder)
            return teacher.requires_grad_(True)
        return self.encoder

    @torch.no_grad()
    def online_labels(self, features: Tensor) -> Tensor:
        """The nearest prototype [n_unlabelled], of the image's own task, of features [n_unlabelled, D]."""
        return self.prototypes.similarities(features).masked_fill(~self.allowed, -math.inf).argmax(1)


def random_balanced(collection: Collection, generator: torch.Generator) -> Tensor:
    """A random novel category [n_unlabelled] for every unlabelled image: each of its task's equally often, to one."""
    labels = torch.empty(collection.n_unlabelled, dtype=torch.int64)
    for task, rows, own in by_task(collection, labels.device):
        labels[rows] = own.start + torch.randperm(len(rows), generator=generator) % task.n_novel
    return labels


def one_hot(labels: Tensor, n: int) -> Tensor:
    """Labels [N] as rows [N, n] of 0 and 1; torch's own looks at the labels on the host."""
    return (labels[:, None] == torch.arange(n, device=labels.device)).float()


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """The mean cross-entropy of logits [views, n, C] to targets [n, C], or [views, n, C] for each view its own
    (equation 5)."""
    return -(targets * logits.log_softmax(-1)).sum(-1).mean()
