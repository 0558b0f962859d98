"""Temporal ensembles: what a network said of each image, averaged over the epochs."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class TemporalEnsemble(nn.Module):
    """A moving average over epochs of predictions [n, K] for n images (Laine and Aila 2017).

    ``record`` keeps the newest predictions, ``update`` adds them to the average once an epoch. The average starts at 0
    and is divided by the sum of its weights, 1 - momentum^t after t updates, which corrects for the start.
    """

    latest: Tensor
    average: Tensor
    weight: Tensor

    def __init__(self, images: int, categories: int, momentum: float = 0.6) -> None:
        super().__init__()
        self.momentum = momentum
        self.register_buffer("latest", torch.zeros(images, categories))
        self.register_buffer("average", torch.zeros(images, categories))
        self.register_buffer("weight", torch.zeros(()))

    def record(self, rows: Tensor, predictions: Tensor) -> None:
        """Keep the predictions [m, K] for the images ``rows`` [m] until the next update; no gradient goes to them."""
        self.latest[rows] = predictions.detach().to(self.latest.dtype)

    def update(self) -> None:
        """Add the newest predictions of all images to the average."""
        self.average.lerp_(self.latest, 1 - self.momentum)
        self.weight.lerp_(torch.ones_like(self.weight), 1 - self.momentum)

    def of(self, rows: Tensor | slice) -> Tensor:
        """The corrected average [m, K] for the images ``rows`` [m]."""
        return self.average[rows] / self.weight
