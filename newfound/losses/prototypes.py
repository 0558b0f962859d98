"""Online prototype learning (section 3.1.2 of the paper): assign images to prototypes, and move those along."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from newfound.losses.sinkhorn import sinkhorn

Similarity = Literal["cosine", "euclidean", "dot"]
Update = Literal["batch_mean", "per_sample"]

LEAST = torch.finfo(torch.float32).tiny
"""A class with less weight than this in a batch is absent from it."""


class OnlinePrototypes(nn.Module):
    """Prototypes [K, D] of the novel categories, which follow the features assigned to them.

    With cosine similarity ``initial`` [K, D] and all features are brought to unit length, and prototypes are
    re-projected onto the sphere after every update. For Euclidean distance and dot product neither is normalised: on
    the sphere the three would rank alike. ``momentum`` is the paper's beta.
    """

    prototypes: Tensor

    def __init__(
        self,
        initial: Tensor,
        *,
        momentum: float = 0.99,
        similarity: Similarity = "cosine",
        update: Update = "batch_mean",
    ) -> None:
        super().__init__()
        if initial.ndim != 2:
            raise ValueError(f"expected initial prototypes [K, D], got a tensor of shape {tuple(initial.shape)}")
        if not 0 <= momentum < 1:
            raise ValueError(f"momentum is {momentum}; choose at least 0 and less than 1")
        if similarity not in get_args(Similarity):
            raise ValueError(f"there is no similarity {similarity!r}; choose one of {', '.join(get_args(Similarity))}")
        if update not in get_args(Update):
            raise ValueError(f"there is no update {update!r}; choose one of {', '.join(get_args(Update))}")
        self.momentum, self.similarity, self.rule = momentum, similarity, update
        self.register_buffer("prototypes", self._project(initial.detach().float()).clone())

    def similarities(self, features: Tensor) -> Tensor:
        """How much features [n, D] are like each prototype, [n, K]: the cosine, the dot product, or the squared
        Euclidean distance with a minus."""
        features = self._project(features.float())
        with torch.autocast(features.device.type, enabled=False):
            products = features @ self.prototypes.T
        if self.similarity != "euclidean":
            return products
        norms = features.square().sum(dim=1, keepdim=True) + self.prototypes.square().sum(dim=1)
        return (2 * products - norms).clamp(max=0)

    @torch.no_grad()
    def assign(
        self,
        features: Tensor,
        *,
        balanced: bool,
        soft: bool,
        allowed: Tensor | None = None,
        epsilon: float | Tensor = 0.05,
        rounds: int = 3,
        columns: Tensor | None = None,
    ) -> Tensor:
        """Targets [n, K] for features [n, D]: one-hot where hard, rows that sum to 1 where soft.

        Hard and not balanced is the paper's arg max. Balanced targets come from Sinkhorn's iterations, in equal
        shares or in proportion to ``columns`` [K]; soft ones that
        are not balanced from a softmax; in both ``epsilon`` is the temperature. Euclidean distances and dot products,
        whose scale is arbitrary, are first brought to mean 0 and standard deviation 1, so ``epsilon`` is in units of
        their deviation. Where ``allowed`` [n, K] is false the target is 0; an image that may have no category has none.
        """
        scores = self.similarities(features)
        if self.similarity != "cosine":
            scores = _standardised(scores, allowed)
        if not balanced:
            rounds, columns = 0, None
        targets = sinkhorn(scores, epsilon=epsilon, rounds=rounds, columns=columns, allowed=allowed)
        if soft:
            return targets
        largest = targets.argmax(dim=1, keepdim=True)
        return torch.zeros_like(targets).scatter_(1, largest, 1.0) * (targets > 0)

    @torch.no_grad()
    def update(self, features: Tensor, targets: Tensor) -> None:
        """Move the prototypes towards the features [n, D] that targets [n, K] assign to them: see ``ema``."""
        self.prototypes.copy_(self.ema(features, targets))

    def ema(self, features: Tensor, targets: Tensor) -> Tensor:
        """What ``update`` makes of the prototypes, [K, D], with the batch's part in the graph.

        "batch_mean": p <- beta p + (1 - beta) m, where m is the class mean of the batch. "per_sample": p <- beta p +
        (1 - beta) f for one sample after the other in the order of the batch, where the re-projection, which would
        follow each, is done once at the end; a soft target of weight w moves by 1 - beta^w instead of 1 - beta. Under
        cosine similarity the result is re-projected onto the sphere. Classes absent from the batch keep their
        prototypes, bit for bit, and have no gradient.
        """
        targets = targets.float()
        if self.rule == "per_sample":
            moved = self._after_each_sample(features, targets)
        else:
            moved = self.momentum * self.prototypes + (1 - self.momentum) * self._means(features, targets)
        present = targets.sum(dim=0) >= LEAST
        if self.similarity == "cosine":
            # Where old and new cancel out, as opposite directions may, there is no point of the sphere to go to.
            present = present & (moved.detach().norm(dim=1) > 1e-6)
        return torch.where(present[:, None], self._project(moved), self.prototypes)

    def straight_through(self, features: Tensor, targets: Tensor) -> Tensor:
        """The prototypes [K, D] in value, with the gradient of the batch's class means: p + m - stop(m).

        Through it a loss on the prototypes reaches the features [n, D] that targets [n, K] assign to them, at full
        scale; through ``ema`` it would arrive scaled by 1 - beta. Classes absent from the batch have no gradient.
        """
        means = self._means(features, targets.float())
        return self.prototypes + (means - means.detach())

    def _means(self, features: Tensor, targets: Tensor) -> Tensor:
        """The mean [K, D] of the features by the weight of their targets; 0 for absent classes."""
        return self._weighted_sum(targets / targets.sum(dim=0).clamp(min=LEAST), features)

    def _after_each_sample(self, features: Tensor, targets: Tensor) -> Tensor:
        """beta^n p + (1 - beta) sum_i beta^(n - 1 - i) f_i for the n samples f_0, f_1, ... of each class: [K, D]."""
        done = targets.cumsum(dim=0)
        total = done[-1]
        still_to_come = (total - done).clamp(min=0)
        rate = (1 - self.momentum**targets) * self.momentum**still_to_come
        return self.momentum ** total[:, None] * self.prototypes + self._weighted_sum(rate, features)

    def _weighted_sum(self, weights: Tensor, features: Tensor) -> Tensor:
        features = self._project(features.float())
        with torch.autocast(features.device.type, enabled=False):
            return weights.detach().T @ features

    def _project(self, vectors: Tensor) -> Tensor:
        """Onto the sphere, where similarity is cosine."""
        return F.normalize(vectors, dim=1) if self.similarity == "cosine" else vectors


def _standardised(scores: Tensor, allowed: Tensor | None) -> Tensor:
    """Scores [n, K] with mean 0 and standard deviation 1 over all that are allowed."""
    weights = torch.ones_like(scores) if allowed is None else allowed.float()
    count = weights.sum().clamp(min=1)
    centred = scores - (weights * scores).sum() / count
    deviation = ((weights * centred.square()).sum() / count).sqrt()
    return centred / deviation.clamp(min=1e-6)
