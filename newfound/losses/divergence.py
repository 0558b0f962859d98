"""IIC's two constraints: symmetric divergences between known and novel images, and between views of one image."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F


def inter_class(known: Tensor, novel: Tensor) -> Tensor:
    """The mean symmetric divergence (a scalar) of softmaxes of logits ``known`` [..., n, C] and ``novel`` [..., m, C].

    The inter-class constraint of IIC (Li et al. 2023), which is maximised: (KL(p || q) + KL(q || p)) / 2 over all pairs
    of a known and a novel image. The mean over pairs of p_i . log q_j is the product of the means, so no matrix of
    pairs is needed.
    """
    log_p, log_q = F.log_softmax(known.float(), -1), F.log_softmax(novel.float(), -1)
    p, q = log_p.exp(), log_q.exp()
    own = (p * log_p).sum(-1).mean(-1) + (q * log_q).sum(-1).mean(-1)
    cross = (p.mean(-2) * log_q.mean(-2)).sum(-1) + (q.mean(-2) * log_p.mean(-2)).sum(-1)
    return (own - cross).mean() / 2


def intra_class(logits: Tensor) -> Tensor:
    """The mean symmetric divergence (a scalar) between views of one image, over the number of categories; from logits
    [..., V, n, C].

    The intra-class constraint of IIC, which is minimised: the mean over the V (V - 1) / 2 pairs of views, images and
    whatever comes before. The sum over pairs is V sum_v p_v log p_v - (sum_v p_v) (sum_v log p_v), halved.
    """
    log_p = F.log_softmax(logits.float(), -1)
    p = log_p.exp()
    views, categories = logits.shape[-3], logits.shape[-1]
    pairs = views * (p * log_p).sum(-3) - p.sum(-3) * log_p.sum(-3)
    return pairs.sum(-1).mean() / (views * (views - 1)) / categories
