"""Soft assignments to cluster centres, the sharper targets made of them, and the divergence between the two."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

TINY = torch.finfo(torch.float32).tiny


def soft_assignment(vectors: Tensor, centres: Tensor, allowed: Tensor | None = None) -> Tensor:
    """The probability [n, K] of each cluster, from vectors [n, D] and the clusters' centres [K, D].

    q of DEC (Xie et al. 2016) and DTC (Han et al. 2019): q_ik is proportional to 1 / (1 + ||z_i - mu_k||²), Student's t
    with one degree of freedom. Where ``allowed`` [n, K] (bool) is false, it is 0.
    """
    with torch.autocast(vectors.device.type, enabled=False):
        vectors, centres = vectors.float(), centres.float()
        lengths = vectors.square().sum(1, keepdim=True) + centres.square().sum(1)
        distances = (lengths - 2 * vectors @ centres.T).clamp_min(0)
    near = 1 / (1 + distances)
    near = near if allowed is None else near * allowed
    return near / near.sum(1, keepdim=True)


def sharpen(assignment: Tensor) -> Tensor:
    """Targets [n, K] that are surer than the soft assignment [n, K] of all images: no gradient goes through them.

    p of DEC and DTC: p_ik is proportional to q_ik² / sum_i q_ik. The sum keeps large clusters from growing.
    """
    q = assignment.detach().float()
    weight = q.square() / q.sum(0).clamp_min(TINY)
    return weight / weight.sum(1, keepdim=True)


def cluster_divergence(targets: Tensor, assignment: Tensor, allowed: Tensor | None = None) -> Tensor:
    """KL(p || q) (a scalar) of targets p [n, K] from assignments q [n, K], divided by K; the mean over images.

    The loss of DTC in the scale of its published code, which divides by the number of clusters too: the weights of the
    terms beside it are meant for that. With ``allowed`` [n, K] (bool) an image has only those clusters.
    """
    log_q = assignment.float().clamp_min(TINY).log()
    return _mean(F.kl_div(log_q, targets.float(), reduction="none"), allowed)


def _mean(values: Tensor, allowed: Tensor | None) -> Tensor:
    """The mean over images of each one's mean over its clusters, of values [n, K] that are 0 for all others."""
    return values.mean() if allowed is None else (values.sum(1) / allowed.sum(1)).mean()
