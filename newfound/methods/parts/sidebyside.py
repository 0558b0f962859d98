"""One classifier from two that were trained apart, over known and over novel categories."""

from __future__ import annotations

import torch
from torch import Tensor

from newfound.nets.heads import LinearClassifier


@torch.no_grad()
def level_parts(head: LinearClassifier, features: Tensor, n_labelled: int, n_known: int) -> None:
    """Shift the biases of the novel categories, all by one number, so that labelled images are told best from
    unlabelled ones; from features [n, D] of the training images, the first ``n_labelled`` of which are labelled.

    Two softmaxes, over the first ``n_known`` outputs and over the others, leave open which of their logits is larger.
    Best is the mean of the share of labelled images whose largest logit is a known category's and the share of
    unlabelled images whose largest is a novel one's. Within known and within novel categories nothing changes.
    """
    logits = head(features)
    lead, order = (logits[:, :n_known].amax(1) - logits[:, n_known:].amax(1)).sort()
    labelled = order < n_labelled
    told = (~labelled).cumsum(0) / (~labelled).sum() - labelled.cumsum(0) / n_labelled
    last = told[:-1].argmax()  # the images up to here are novel
    head.bias[n_known:] += (lead[last] + lead[last + 1]) / 2
