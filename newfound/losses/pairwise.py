"""Losses over pairs of images, of which is known or guessed whether they are of one category."""

from __future__ import annotations

import torch
from torch import Tensor

EPSILON = 1e-7


def pair_likelihood(first: Tensor, second: Tensor, same: Tensor) -> Tensor:
    """The mean negative log-likelihood (a scalar) of ``same`` [n, m] (bool), from probabilities [n, K] and [m, K].

    The likelihood that two images are of one category is the inner product of their probabilities (MCL, Hsu et al.
    2019; the binary cross-entropy of AutoNovel, Han et al. 2020). The mean is over all pairs.
    """
    with torch.autocast(first.device.type, enabled=False):
        together = first.float() @ second.float().T
    return -(torch.where(same, together, 1 - together) + EPSILON).log().mean()


def pair_divergence(probabilities: Tensor, same: Tensor, *, margin: float = 2.0) -> Tensor:
    """The mean divergence (a scalar) of pairs that are the ``same`` [n, n] (bool), and the mean of what others lack to
    the margin; from probabilities [n, K].

    The loss of KCL (Hsu et al. 2018): KL(p_j || p_i) where i and j are of one category, max(0, margin - KL(p_j || p_i))
    where not, over all ordered pairs. No gradient goes to p_j.
    """
    with torch.autocast(probabilities.device.type, enabled=False):
        log_p = (probabilities.float() + EPSILON).log()
        target, log_target = probabilities.detach().float(), log_p.detach()
        divergence = (target * log_target).sum(1)[None] - log_p @ target.T
    return torch.where(same, divergence, (margin - divergence).clamp_min(0)).mean()
