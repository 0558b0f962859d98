"""Cross-entropy to soft labels."""

from __future__ import annotations

from torch import Tensor


def soft_cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """The mean cross-entropy (a scalar) of logits [views, n, C] to targets [n, C], or [views, n, C] for each view its
    own (equation 5 of the paper)."""
    return -(targets * logits.log_softmax(-1)).sum(-1).mean()
