"""How strange an image is to a model, and whether it fits any of the categories, old or new."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

NEIGHBOURS = 5
MAX_EXEMPLARS = 5000
"""Training images that strangeness is measured from: enough for a neighbourhood; at 1,280 numbers each 25 MB."""
CHUNK = 4096


class Strangeness(nn.Module):
    """From features [N, D] to how strange each is, [N]: its mean cosine distance to the five nearest of some training
    images, the exemplars, divided by what that is for the exemplars of their categories themselves.

    So an image of a category, wide or narrow, is at about 1. ``exemplars`` [E, D] have unit length; ``spacing`` [E] is
    the mean distance to neighbours in each one's category; ``held_out`` [n] is the strangeness, rising, of images of
    the categories that were not trained on.
    """

    exemplars: Tensor
    spacing: Tensor
    held_out: Tensor

    def __init__(self, exemplars: int, width: int, held_out: int = 0) -> None:
        super().__init__()
        self.register_buffer("exemplars", torch.zeros(exemplars, width))
        self.register_buffer("spacing", torch.ones(exemplars))
        self.register_buffer("held_out", torch.zeros(held_out))

    @torch.no_grad()
    def forward(self, features: Tensor) -> Tensor:
        with torch.autocast(features.device.type, enabled=False):  # small differences: bfloat16 loses them
            cosine = F.normalize(features.float()) @ self.exemplars.T
        nearest, which = cosine.topk(min(NEIGHBOURS, len(self.exemplars)), dim=1)
        return (1 - nearest).clamp(min=0).mean(1) / self.spacing[which].mean(1)

    def calibrate(self, strangeness: Tensor) -> None:
        """Take these values [n] for those of images of the categories that were not trained on."""
        self.register_buffer("held_out", strangeness.detach().sort().values.to(self.exemplars))

    def p_value(self, strangeness: Tensor) -> Tensor:
        """The share [N] of the held-out images, with the one in question among them, that are at least as strange; in
        float64, in which one in twenty is not more than 0.05.

        Of images that come from where the held-out ones came from, at most a share ``a`` has a p-value up to ``a``.
        """
        held_out = self.held_out.to(strangeness.device)
        as_strange = len(held_out) - torch.searchsorted(held_out, strangeness.contiguous())
        return (1 + as_strange.double()) / (1 + len(held_out))


@torch.no_grad()
def learn_exemplars(features: Tensor, categories: np.ndarray, seed: int) -> Strangeness:
    """Exemplars from the features [N, D] of training images in ``categories`` [N]: random ones, of no category more
    than its share of ``MAX_EXEMPLARS``."""
    chosen = _choose(categories, seed)
    exemplars = F.normalize(features[torch.from_numpy(chosen).to(features.device)].float())
    own = torch.cat([_to_neighbours(rows, exemplars) for rows in torch.arange(len(chosen)).split(CHUNK)])
    _, category = np.unique(categories[chosen], return_inverse=True)
    group = torch.from_numpy(category).to(own.device)
    spacing = torch.zeros(int(group.max()) + 1, device=own.device).index_add_(0, group, own)
    spacing = spacing / torch.bincount(group)
    # A category of copies has no width of its own, and everything else would be infinitely far from it.
    spacing = spacing.clamp(min=max(0.01 * float(spacing.mean()), 1e-6))
    learned = Strangeness(*exemplars.shape).to(exemplars.device)
    learned.exemplars.copy_(exemplars)
    learned.spacing.copy_(spacing[group])
    return learned


def _choose(categories: np.ndarray, seed: int) -> np.ndarray:
    order = np.random.default_rng([seed, 0x57A]).permutation(len(categories))
    order = order[np.argsort(categories[order], kind="stable")]
    _, begun, sizes = np.unique(categories[order], return_index=True, return_counts=True)
    rank = np.arange(len(order)) - np.repeat(begun, sizes)
    return np.sort(order[rank < max(NEIGHBOURS + 1, MAX_EXEMPLARS // len(sizes))])


def _to_neighbours(rows: Tensor, exemplars: Tensor) -> Tensor:
    """The mean cosine distance of these exemplars to the nearest others."""
    rows = rows.to(exemplars.device)
    cosine = exemplars[rows] @ exemplars.T
    cosine[torch.arange(len(rows), device=rows.device), rows] = -1
    nearest = cosine.topk(min(NEIGHBOURS, max(1, len(exemplars) - 1)), dim=1).values
    return (1 - nearest).clamp(min=0).mean(1)
