"""Swapped prediction: every view predicts the label that another, whole view of the same image was given."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F


def swapped_prediction(logits: Tensor, targets: Tensor) -> Tensor:
    """The mean cross-entropy [...] of logits [..., V, n, C] to the targets [..., 2, n, C] of the two whole views.

    The loss of UNO (Fini et al. 2021): the views 0 and 1 are the whole ones and predict each other's targets, extra
    views predict both. The mean is over the 2 (V - 1) pairs of views and over images. No gradient goes to targets.
    """
    log_probability = F.log_softmax(logits.float(), dim=-1)
    targets = targets.detach()
    across = (targets.flip(-3) * log_probability[..., :2, :, :]).sum((-3, -2, -1))
    to_both = (targets.sum(-3) * log_probability[..., 2:, :, :].sum(-3)).sum((-2, -1))
    views, images = logits.shape[-3], logits.shape[-2]
    return -(across + to_both) / (2 * (views - 1) * images)
