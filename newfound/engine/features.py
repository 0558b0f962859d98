"""What a network makes of un-augmented images."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from newfound.data.store import ImageStore
from newfound.engine.device import precision
from newfound.progress import Reporter

BATCH, NUMBERS = 512, 2**23
"""Images at a time, and on a CPU how many numbers these may have: 55 images of 224 pixels. On one core
EfficientNet-Lite0 reads 39 images a second so, and 11 where it is shown 512 at a time."""


@torch.no_grad()
def read_features(
    network: nn.Module,
    images: ImageStore,
    device: torch.device,
    reporter: Reporter,
    *,
    title: str,
    of: Callable[[Tensor], Tensor] | None = None,
) -> Tensor:
    """What ``network``, in evaluation mode, or its function ``of`` gives for all images: float32 [n, D]."""
    was_training = network.training
    network.to(device).eval()
    function = of or network
    rows = torch.arange(len(images)).split(_batch(network, images, device))
    # One tensor for all: small results kept between large passing ones would fragment the memory (4 GB for 200,000).
    features, done = torch.empty(0), 0
    with reporter.task(title, len(images)) as task, precision(device):
        for index, batch in images.batches(rows):
            some = function(batch.to(device)).float()
            if done == 0:
                features = some.new_empty(len(images), some.shape[1])
            features[done : done + len(some)] = some
            done += len(some)
            task.advance(len(index))
    network.train(was_training)
    return features


def _batch(network: nn.Module, images: ImageStore, device: torch.device) -> int:
    """How many images are read at a time, by the size that they have in the network."""
    if device.type != "cpu":
        return BATCH
    side = max(images.shape[1], *(getattr(part, "resized", 0) for part in network.modules()))
    return max(1, min(BATCH, NUMBERS // (3 * side * side)))
