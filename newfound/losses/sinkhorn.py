"""Assignments in which every category gets its share of the images: Sinkhorn's iterations."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def sinkhorn(
    similarity: Tensor,
    *,
    epsilon: float | Tensor = 0.05,
    rounds: int = 3,
    columns: Tensor | None = None,
    allowed: Tensor | None = None,
) -> Tensor:
    """Soft assignments [..., n, K], rows summing to 1, for similarities [..., n, K] of images to categories.

    Starts from exp(similarity / epsilon) and scales columns and rows in turn (Cuturi 2013), ``rounds`` times, so that
    the columns come to share the images equally, or in proportion to ``columns`` [K]. 0 rounds give the softmax.
    ``epsilon`` is the temperature.

    Where ``allowed`` [n, K] is false the assignment is exactly 0, and the columns' shares follow: an image's mass is
    meant for the categories it may have, so that blocks balance each by itself. A row without any allowed category is
    0 throughout and takes no part. Computed with logarithms, so nothing overflows.
    """
    scores = similarity.float() / epsilon
    if allowed is not None:
        scores = scores.masked_fill(~allowed, -math.inf)
    if columns is not None:
        scores = torch.where(columns > 0, scores, -math.inf)
    log_share = _shares(scores > -math.inf, columns).log()
    column_offset = scores.new_zeros(*scores.shape[:-2], 1, scores.shape[-1])
    row_offset = scores.new_zeros(*scores.shape[:-1], 1)
    for _ in range(rounds):
        column_offset = _finite(log_share - _finite(torch.logsumexp(scores + row_offset, dim=-2, keepdim=True)))
        row_offset = -_finite(torch.logsumexp(scores + column_offset, dim=-1, keepdim=True))
    scores = scores + column_offset
    return (scores - _finite(torch.logsumexp(scores, dim=-1, keepdim=True))).exp()


def _shares(allowed: Tensor, columns: Tensor | None) -> Tensor:
    """The mass [..., 1, K] that each column should have where rows have the mass 1: n_b / K_b for K_b categories in a
    block of n_b images, or in proportion to ``columns`` within the block."""
    weights = allowed.float() if columns is None else allowed * columns.float()
    total = weights.sum(dim=-1, keepdim=True)
    return torch.where(total > 0, weights / total, 0.0).sum(dim=-2, keepdim=True)


def _finite(logarithms: Tensor) -> Tensor:
    """The same with 0 for the logarithm of nothing, so that an empty row or column is left alone."""
    return torch.where(logarithms == -math.inf, 0.0, logarithms)
