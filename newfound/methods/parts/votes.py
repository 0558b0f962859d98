"""One answer from several heads, each of which numbers the categories as it likes."""

from __future__ import annotations

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor


@torch.no_grad()
def votes(probabilities: Tensor, lead: int) -> Tensor:
    """The mean [n, K] of the heads' probabilities [H, n, K], in the numbering of the head ``lead``.

    The categories of each head are matched one to one with the lead's, so that the probabilities of an image meet as
    often as possible.
    """
    total = torch.zeros_like(probabilities[lead])
    for own in probabilities:
        together = own.T @ probabilities[lead]
        rows, columns = linear_sum_assignment(together.cpu().numpy(), maximize=True)
        total[:, torch.from_numpy(columns)] += own[:, torch.from_numpy(rows)]
    return total / len(probabilities)
