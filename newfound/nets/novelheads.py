"""Several MLP heads for novel categories, side by side."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from newfound.nets.heads import CosineClassifier, ProjectedClassifier


class NovelHeads(nn.Module):
    """Cosines [count, n, categories] of features [n, width]: ``count`` heads, each an MLP with one hidden layer and
    batch norm, to unit vectors of ``bottleneck`` numbers and their cosines to unit prototypes.

    The first layers are one matrix product, the second ones a batched product.
    """

    def __init__(self, width: int, categories: int, count: int, hidden: int, bottleneck: int) -> None:
        super().__init__()
        self.count = count
        self.first = nn.Linear(width, count * hidden)
        self.norm = nn.BatchNorm1d(count * hidden)
        self.second = nn.Parameter(_uniform(hidden, count, hidden, bottleneck))
        self.bias = nn.Parameter(_uniform(hidden, count, 1, bottleneck))
        self.prototypes = nn.Parameter(F.normalize(_uniform(bottleneck, count, categories, bottleneck), dim=-1))

    def forward(self, features: Tensor) -> Tensor:
        hidden = F.relu(self.norm(self.first(features))).unflatten(1, (self.count, -1)).transpose(0, 1)
        vectors = torch.baddbmm(self.bias.to(hidden.dtype), hidden, self.second.to(hidden.dtype))
        # In bfloat16, as autocast would multiply, a cosine above .5 comes in steps of .004.
        with torch.autocast(features.device.type, enabled=False):
            return F.normalize(vectors.float(), dim=-1) @ F.normalize(self.prototypes, dim=-1).mT

    @torch.no_grad()
    def renormalise(self) -> None:
        """Bring the prototypes back to unit length, so that their learning rate does not fall as they grow."""
        self.prototypes.copy_(F.normalize(self.prototypes, dim=-1))

    @torch.no_grad()
    def answer(self, number: int, known: CosineClassifier) -> ProjectedClassifier:
        """The head of that number beside the ``known`` categories' classifier, as one head to be saved."""
        hidden, bottleneck = self.second.shape[1:]
        own = slice(number * hidden, (number + 1) * hidden)
        n_known, n_novel = len(known.weight), self.prototypes.shape[1]
        head = ProjectedClassifier(
            self.first.in_features, n_known + n_novel, n_known, hidden, bottleneck, known.temperature
        ).to(self.second.device)
        head.known.weight.copy_(known.weight)
        for name in ("weight", "bias"):
            getattr(head.first, name).copy_(getattr(self.first, name)[own])
        for name in ("weight", "bias", "running_mean", "running_var"):
            getattr(head.norm, name).copy_(getattr(self.norm, name)[own])
        head.second.weight.copy_(self.second[number].T)
        head.second.bias.copy_(self.bias[number, 0])
        head.novel.weight.copy_(self.prototypes[number])
        return head.eval()


def _uniform(inputs: int, *shape: int) -> Tensor:
    """Numbers uniform within 1 / sqrt(inputs) of 0, as a linear layer of so many inputs begins."""
    return (2 * torch.rand(*shape) - 1) * inputs**-0.5
