"""Consistency: two views of an image have the same probabilities."""

from __future__ import annotations

from torch import Tensor


def consistency(first: Tensor, second: Tensor, allowed: Tensor | None = None) -> Tensor:
    """The mean squared difference (a scalar) of probabilities [n, K], over images and the categories each may have.

    The term of Laine and Aila (2017) that DTC, AutoNovel and WTA-NCD add. Where ``allowed`` (bool), [K] for all images
    or [n, K], is false, both probabilities are 0, and the category does not count in the mean.
    """
    squares = (first.float() - second.float()).square()
    return squares.mean() if allowed is None else (squares.sum(1) / allowed.sum(-1)).mean()
