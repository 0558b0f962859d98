"""Cross-entropy in which every image has a weight of its own."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F


def rectified_cross_entropy(logits: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
    """The sum of the weighted cross-entropies of logits [n, C], divided by n: a scalar.

    L_s2 of section 3.2.3 of the paper, with weight 1 for images whose label is known and the cosine of feature and
    prototype for the others (L_rect, section 3.2.2). Labels are [n] int64, or soft targets [n, C]. The sum is divided
    by the number of images, not by the sum of weights [n], which get no gradient.
    """
    targets = labels.float() if labels.is_floating_point() else labels
    each = F.cross_entropy(logits.float(), targets, reduction="none")
    return (weights.detach().float() * each).mean()
