"""How far what a classifier says of one group of images lies from what it says of another."""

from __future__ import annotations

from torch import Tensor


def divergence(first: Tensor, second: Tensor) -> Tensor:
    """The symmetric Kullback-Leibler divergence of the classes' probabilities, half of its two directions together,
    mean over all pairs of a row of logits ``first`` [n, C] and one of ``second`` [m, C]: a scalar.

    The inter-class constraint of Li et al. 2023 (IIC), which keeps labelled and unlabelled images apart. The pairs need
    not be formed: products of rows summed over pairs are products of sums.
    """
    a, b = (logits.float().log_softmax(1) for logits in (first, second))
    p, q = a.exp(), b.exp()
    own = (p * a).sum(1).mean() + (q * b).sum(1).mean()
    across = (p.mean(0) * b.mean(0) + q.mean(0) * a.mean(0)).sum()  # autocast would take matrix products in bfloat16
    return (own - across) / 2
