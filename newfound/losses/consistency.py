"""Consistency: two views of an image have the same probabilities."""

from __future__ import annotations

from torch import Tensor


def consistency(first: Tensor, second: Tensor, allowed: Tensor) -> Tensor:
    """The mean squared difference (a scalar) of probabilities [n, K], over the categories ``allowed`` [K] (bool).

    The others have probability 0 in both and are not counted in the mean. The term of Laine and Aila (2017) that DTC
    and AutoNovel add.
    """
    squares = (first.float() - second.float()).square() * allowed
    return squares.sum(1).mean() / allowed.sum()
