"""What a network makes of un-augmented images."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from newfound.data.store import ImageStore
from newfound.engine.device import precision
from newfound.progress import Reporter

BATCH = 512


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
    rows = torch.arange(len(images)).split(BATCH)
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
