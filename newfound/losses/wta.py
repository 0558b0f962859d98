"""Winner-take-all hashing: features are alike if the same of their dimensions win, whatever the values are."""

from __future__ import annotations

import torch
from torch import Tensor


def wta_windows(codes: int, width: int, dimensions: int) -> Tensor:
    """Windows [codes, width] into so many dimensions: the first entries of as many random permutations of them."""
    return torch.rand(codes, dimensions).argsort(1)[:, :width].contiguous()


def wta_codes(features: Tensor, windows: Tensor) -> Tensor:
    """The codes [n, H] of features [n, D]: the place, in each of the windows [H, k], of the largest entry.

    The hash of Yagnik et al. 2011. Of equal entries the first one wins.
    """
    return features[:, windows].argmax(-1)


def shared_codes(codes: Tensor, width: int) -> Tensor:
    """How many codes, of [n, H] with values below ``width``, each pair of images has in common: [n, n], int64."""
    hot = (codes[..., None] == torch.arange(width, device=codes.device)).float().flatten(1)
    with torch.autocast(codes.device.type, enabled=False):  # bfloat16 cannot count beyond 256
        return (hot @ hot.T).long()


def count_pairs(counts: Tensor, labels: Tensor, highest: int) -> Tensor:
    """Of pairs of different images with labels [n] that have ``counts`` [n, n] codes in common: how many have each
    number from 0 to ``highest``, in a row for pairs of different categories and one for pairs of the same; int64
    [2, highest + 1]."""
    place = counts + (highest + 1) * (labels[:, None] == labels)
    different = ~torch.eye(len(labels), dtype=torch.bool, device=labels.device)
    found = torch.zeros(2 * (highest + 1), dtype=torch.int64, device=labels.device)
    return found.scatter_add_(0, place.flatten(), different.flatten().long()).view(2, -1)


def choose_threshold(pairs: Tensor, share: float, *, beta: float = 0.5, slack: float = 0.01) -> Tensor:
    """The number of codes (a scalar, int64) from which on a pair is best taken for one of the same category, by how
    many labelled pairs have each number, ``pairs`` [2, H + 1] of ``count_pairs``.

    Best is the largest F-measure, in which precision counts 1 / ``beta`` times as much as recall. Precision depends on
    how common pairs of the same category are; ``share`` says how common they are where the threshold will be used.
    0 codes in common are never enough. Where labelled categories are easily told apart, many thresholds are as good:
    it is the middle of those whose F-measure is within ``slack`` of the largest.
    """
    at_least = pairs.double().flip(1).cumsum(1).flip(1)
    rates = at_least / at_least[:, :1].clamp(min=1)
    found, right = (1 - share) * rates[0] + share * rates[1], share * rates[1]
    precision, recall = right / found.clamp(min=1e-12), rates[1]
    score = (1 + beta**2) * precision * recall / (beta**2 * precision + recall).clamp(min=1e-12)
    good = (score[1:] >= score[1:].max() - slack).int()
    first, last = good.argmax(), len(good) - 1 - good.flip(0).argmax()
    return 1 + (first + last) // 2
