"""What sits on a backbone's features: projection heads, whitening, classifiers over old and new categories."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Kind = Literal["linear", "cosine"]


class Head(nn.Module):
    """Logits [n, classes] of features [n, width]: what a saved model ends with, found again by its name."""

    def describe(self) -> dict[str, Any]:
        """The head's name and the options it was made with: what ``build_head`` makes it from again."""
        raise TypeError(f"{type(self).__name__} does not describe itself, so it cannot be saved")

    def reorder(self, order: Tensor) -> None:
        """Give the categories another order: number i becomes that which was number ``order[i]``; known ones stay."""
        raise TypeError(f"{type(self).__name__} cannot give its categories another order")


class DinoHead(nn.Module):
    """Outputs [n, out] of features [n, width]: an MLP to a bottleneck, unit length, and a weight-normalised layer.

    The head of DINO (Caron et al. 2021): ``layers`` linear layers, GELU between them (after batch norm, with ``norm``),
    the last of them to ``bottleneck`` numbers. The outputs are cosines, since the rows of ``last`` have the gain 1.
    """

    def __init__(
        self,
        width: int,
        hidden: int = 2048,
        bottleneck: int = 256,
        out: int = 4096,
        layers: int = 3,
        norm: bool = True,
    ) -> None:
        super().__init__()
        if layers < 1:
            raise ValueError(f"a head of {layers} layers cannot be made; choose at least 1")
        mlp: list[nn.Module] = []
        widths = [width, *[hidden] * (layers - 1)]
        for inputs, outputs in pairwise(widths):
            mlp += [nn.Linear(inputs, outputs), nn.BatchNorm1d(outputs) if norm else nn.Identity(), nn.GELU()]
        self.mlp = nn.Sequential(*mlp, nn.Linear(widths[-1], bottleneck))
        self.last = UnitLinear(bottleneck, out)
        for module in self.mlp:
            if isinstance(module, nn.Linear):
                nn.init.trunc_normal_(module.weight, std=0.02)
                nn.init.zeros_(module.bias)
        nn.init.trunc_normal_(self.last.weight, std=0.02)

    def forward(self, features: Tensor) -> Tensor:
        return self.last(F.normalize(self.mlp(features).float(), dim=1))


def projection(width: int, hidden: int, out: int) -> nn.Module:
    """A head from features [n, width] to outputs [n, out] that are contrasted: an MLP with one hidden layer (SimCLR,
    MoCo v2), or, where ``hidden`` is 0, a linear layer (MoCo)."""
    if not hidden:
        return nn.Linear(width, out)
    return nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, out))


def linear_or_mlp(width: int, hidden: int, out: int) -> nn.Sequential:
    """Outputs [n, out] of features [n, width]: a linear layer, after one with batch norm and ReLU unless ``hidden`` is
    0."""
    between = [nn.Linear(width, hidden), nn.BatchNorm1d(hidden), nn.ReLU()] if hidden else []
    return nn.Sequential(*between, nn.Linear(hidden or width, out))


class Whitened(nn.Module):
    """Vectors [n, dimension] of a frozen network's features [n, width]: centred, of unit length, centred again, and
    through a linear layer. Length says how much there is to see on an image, direction what it is."""

    centre: Tensor
    mean: Tensor

    def __init__(self, width: int, dimension: int) -> None:
        super().__init__()
        self.register_buffer("centre", torch.zeros(width))
        self.register_buffer("mean", torch.zeros(width))
        self.linear = nn.Linear(width, dimension, bias=False)

    def directions(self, features: Tensor) -> Tensor:
        """Features [n, width] as unit directions around their mean: what goes into the linear layer."""
        return F.normalize(features - self.centre, dim=1) - self.mean

    def forward(self, features: Tensor) -> Tensor:
        vectors: Tensor = self.linear(self.directions(features))
        return vectors


class UnitLinear(nn.Module):
    """Products [n, outputs] of vectors [n, inputs] with weights [outputs, inputs] brought to unit length; no bias."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs))
        _uniform_(self.weight)

    def forward(self, vectors: Tensor) -> Tensor:
        return F.linear(vectors, F.normalize(self.weight, dim=1))


class LinearClassifier(nn.Linear, Head):
    """Logits [n, classes] of features [n, width]."""

    def __init__(self, width: int, classes: int) -> None:  # a saved model's options go no further than this
        super().__init__(width, classes)

    def describe(self) -> dict[str, Any]:
        return {"name": "linear"}

    @torch.no_grad()
    def reorder(self, order: Tensor) -> None:
        self.weight.copy_(self.weight[order])
        self.bias.copy_(self.bias[order])

    @property
    def rows(self) -> Tensor:
        """The weights [classes, width]."""
        return self.weight


class CosineClassifier(UnitLinear, Head):
    """Logits [n, classes] of features [n, width]: cosines to the classes' weights over a temperature."""

    def __init__(self, width: int, classes: int, temperature: float = 0.1) -> None:
        super().__init__(width, classes)
        if not (math.isfinite(temperature) and temperature > 0):
            raise ValueError(f"a temperature of {temperature}; it has to be above 0")
        self.temperature = temperature

    def describe(self) -> dict[str, Any]:
        return {"name": "cosine", "temperature": self.temperature}

    @torch.no_grad()
    def reorder(self, order: Tensor) -> None:
        self.weight.copy_(self.weight[order])

    def forward(self, features: Tensor) -> Tensor:
        # In bfloat16, as autocast would multiply, a cosine above .5 comes in steps of .004, a logit of .04.
        with torch.autocast(features.device.type, enabled=False):
            return super().forward(F.normalize(features.float(), dim=1)) / self.temperature

    @property
    def rows(self) -> Tensor:
        """The weights [classes, width], not normalised."""
        return self.weight


class ProjectedClassifier(Head):
    """Logits [n, classes] of features [n, width], over a temperature: cosines of the features to the first ``known``
    categories' weights, and cosines of an MLP's vectors to the novel ones' prototypes."""

    def __init__(
        self, width: int, classes: int, known: int, hidden: int = 2048, bottleneck: int = 256, temperature: float = 0.1
    ) -> None:
        super().__init__()
        if not (0 < known < classes and 0 < hidden <= 2**16 and 0 < bottleneck <= 2**16 and 0 < temperature < 1e6):
            raise ValueError(f"{known} of {classes} categories known, an MLP {hidden}-{bottleneck}, at {temperature}")
        self.temperature = temperature
        self.known = UnitLinear(width, known)
        self.first, self.norm = nn.Linear(width, hidden), nn.BatchNorm1d(hidden)
        self.second = nn.Linear(hidden, bottleneck)
        self.novel = UnitLinear(bottleneck, classes - known)

    def describe(self) -> dict[str, Any]:
        hidden, bottleneck = self.second.in_features, self.second.out_features
        known = len(self.known.weight)
        return {
            "name": "projected", "known": known, "hidden": hidden, "bottleneck": bottleneck,
            "temperature": self.temperature,
        }  # fmt: skip

    @torch.no_grad()
    def reorder(self, order: Tensor) -> None:
        known = len(self.known.weight)
        self.novel.weight.copy_(self.novel.weight[order[known:] - known])

    def forward(self, features: Tensor) -> Tensor:
        with torch.autocast(features.device.type, enabled=False):
            features = features.float()
            vectors = self.second(F.relu(self.norm(self.first(features))))
            cosines = self.known(F.normalize(features, dim=1)), self.novel(F.normalize(vectors, dim=1))
            return torch.cat(cosines, 1) / self.temperature


Classifier = LinearClassifier | CosineClassifier
"""Heads with one row of weights for each category, in ``rows``."""

HEADS: dict[str, Callable[..., Head]] = {
    "linear": LinearClassifier,
    "cosine": CosineClassifier,
    "projected": ProjectedClassifier,
}
"""Heads by the name that a saved model has for them."""


def build_head(width: int, classes: int, name: str, **options: float) -> Head:
    """The head of that name from features [n, width] to logits [n, classes], with fresh weights."""
    if name not in HEADS:
        raise ValueError(f"there is no head {name!r}; there are: {', '.join(HEADS)}")
    return HEADS[name](width, classes, **options)


def classifier(kind: Kind, width: int, classes: int) -> Classifier:
    """A classifier of that kind to train, from features [n, width] to logits [n, classes]. The weights start uniform, a
    bias at 0 (section 3.1.2 of the paper)."""
    if kind == "cosine":
        return CosineClassifier(width, classes)
    linear = LinearClassifier(width, classes)
    _uniform_(linear.weight)
    nn.init.zeros_(linear.bias)
    return linear


def _uniform_(weight: Tensor) -> None:
    """Fill weights [outputs, inputs] uniformly within 1 / sqrt(inputs) of 0."""
    bound = weight.shape[1] ** -0.5
    nn.init.uniform_(weight, -bound, bound)
