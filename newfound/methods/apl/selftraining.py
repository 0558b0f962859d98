"""Stage II, prototypical self-training: one classifier over old and new, from rectified pseudo labels."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from newfound.config.settings import APLSettings, Plan
from newfound.data.collection import Collection
from newfound.engine.sampler import mixed_sampler
from newfound.engine.stage import Batch, Stage, decay_groups
from newfound.losses import rectified_cross_entropy
from newfound.methods.apl.representation import stage1_views
from newfound.model import Encoder
from newfound.nets.heads import CosineClassifier, LinearClassifier
from newfound.views.crop import PadCropFlip
from newfound.views.multiview import Crops

SHARPNESS = 10.0
"""Logits of a linear classifier that begins as prototypes, for each unit of cosine: a cosine classifier's at its usual
temperature."""


class SelfTraining(Stage):
    """One iteration of stage II (the paper's equations 9 to 11): labels and prototypes stay as they are during it, and
    so do the weights, unless ``rectify_each`` is "step"."""

    labels: Tensor
    weights: Tensor
    prototypes: Tensor

    def __init__(
        self,
        number: int,
        encoder: Encoder,
        head: nn.Module,
        collection: Collection,
        chosen: APLSettings,
        labels: Tensor,
        weights: Tensor,
        prototypes: Tensor,
    ) -> None:
        """``labels`` [n_train] count old and new categories together, as ``prototypes`` [C, D] do; ``weights``
        [n_train] are 1 where labels are given."""
        super().__init__()
        self.name = f"stage2-{number}"
        self.encoder, self.head, self.chosen, self.plan = encoder, head, chosen, chosen.stage2
        self.sampler = mixed_sampler(collection, self.plan.batch, chosen.labelled_share)
        whole = chosen.selftraining.views == "whole"
        crop = PadCropFlip(chosen.crop.pad, chosen.crop.flip, chosen.crop.fill)
        self.views = stage1_views(chosen, encoder.size, extra=0) if whole else crop
        self.register_buffer("labels", labels)
        self.register_buffer("weights", weights)
        self.n_labelled = collection.n_labelled
        if chosen.selftraining.rectify_each == "step":
            self.register_buffer("prototypes", prototypes)

    def parameter_groups(self) -> list[dict[str, Any]]:
        return two_rates(self.encoder, self.head, self.plan, self.chosen.selftraining.backbone_lr)

    def step(self, batch: Batch, t: Tensor) -> dict[str, Tensor]:
        views = batch.views.whole.flatten(0, 1) if isinstance(batch.views, Crops) else batch.views
        features = self.encoder(views)
        logits = self.head(features).float()
        index = batch.index.repeat(len(views) // len(batch.index))
        labels, weights = self.labels[index], self.weights[index]
        if self.chosen.selftraining.rectify_each == "step":
            own = rectification(features.detach().float(), labels, self.prototypes)
            weights = torch.where(index < self.n_labelled, weights, own)
        agreement = (logits.argmax(1) == labels).float().mean()
        loss = rectified_cross_entropy(logits, labels, weights)
        return {"loss": loss, "agreement": agreement, "weight": weights.mean()}


def two_rates(encoder: nn.Module, head: nn.Module, plan: Plan, backbone_lr: float) -> list[dict[str, Any]]:
    """Groups for the optimiser: the encoder learns at ``backbone_lr`` times the head's rate."""
    slow = [{**group, "lr_scale": backbone_lr} for group in decay_groups(encoder, plan)]
    return [*slow, *decay_groups(head, plan)]


def class_means(features: Tensor, labels: Tensor, n: int) -> Tensor:
    """The prototypes [n, D] of stage II: unit means of unit features [N, D] under labels [N]."""
    members = F.one_hot(labels, n).to(features.dtype)
    return F.normalize(members.T @ F.normalize(features))


@torch.no_grad()
def start_from(head: LinearClassifier | CosineClassifier, prototypes: Tensor, features: Tensor) -> None:
    """Have a classifier say of ``features`` [N, D] what unit ``prototypes`` [C, D] do: by their cosines. A linear
    one takes all features to be as long as they are in the mean. An empty category, whose prototype is 0, begins
    anywhere."""
    scale = 1.0 if isinstance(head, CosineClassifier) else SHARPNESS / float(features.norm(dim=1).mean())
    rows = head.rows.to(prototypes.device)
    head.rows.copy_(torch.where(prototypes.norm(dim=1, keepdim=True) > 0, scale * prototypes, rows))


def rectification(features: Tensor, labels: Tensor, prototypes: Tensor, way: str = "cosine") -> Tensor:
    """The weight [N] of each feature [N, D]: its cosine with its label's prototype, in 0 to 1 (section 3.2.2).

    "relative" divides by the mean over the label's members, so that every category weighs the same; "confident" gives 1
    to the half of them whose own prototype is nearer than any other by most, and 0 to the others; "none" gives 1.
    """
    if way == "confident":
        return _surest(features, labels, prototypes)
    weights = (F.normalize(features) * prototypes[labels]).sum(1).clamp(0, 1)
    if way == "none":
        return torch.ones_like(weights)
    if way == "relative":
        members = F.one_hot(labels, len(prototypes)).to(weights.dtype)
        means = (weights @ members) / members.sum(0).clamp(min=1)
        weights = weights / means.clamp(min=1e-6)[labels]
    return weights


def _surest(features: Tensor, labels: Tensor, prototypes: Tensor) -> Tensor:
    """1 for each label's members [N] whose margin (the cosine to its prototype less that to the nearest other) is at
    least the label's median, else 0."""
    cosines = F.normalize(features) @ prototypes.T
    own = cosines.gather(1, labels[:, None])[:, 0]
    margin = own - cosines.scatter(1, labels[:, None], -2.0).amax(1)
    weights = torch.zeros_like(margin)
    for label in labels.unique():
        members = labels == label
        weights[members] = (margin[members] >= margin[members].median()).to(weights.dtype)
    return weights
