"""What a network makes of un-augmented images."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from newfound.data.store import ImageStore
from newfound.engine.device import precision
from newfound.progress import Reporter

BATCH, NUMBERS = 512, 2**23
"""Images at a time, and on a CPU how many numbers these may have: 55 images of 224 pixels. More
are slower, since what passes between layers goes by way of the memory."""

PASSING, SMALL = 2**28, 64
"""On a CPU, bytes that the largest layer may take in and give out for a batch of images wider than so many pixels."""


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
    rows = torch.arange(len(images)).split(_batch(network, images, device, function))
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


def _batch(network: nn.Module, images: ImageStore, device: torch.device, function: Callable[[Tensor], Tensor]) -> int:
    """How many images are read at a time, by the size that they have in the network."""
    if device.type != "cpu":
        return BATCH
    side = max(images.shape[1], *(getattr(part, "resized", 0) for part in network.modules()))
    most = max(1, min(BATCH, NUMBERS // (3 * side * side)))
    if side <= SMALL or len(images) < 2:
        return most
    # Fixed, and no share of what is free: the last bits of features depend on how many images are read at a time.
    return max(1, min(most, PASSING // _passing(network, images, function)))


def _passing(network: nn.Module, images: ImageStore, function: Callable[[Tensor], Tensor]) -> int:
    """Bytes that the largest layer of the network takes in and gives out for one image.

    With gradients on, since without them a network may go past its layers (newfound/nets/efficientnet.py).
    """
    found = [1]

    def note(layer: nn.Module, given: tuple[object, ...], made: object) -> None:
        values = [value for value in (*given, made) if isinstance(value, Tensor)]
        found.append(sum(value.numel() * value.element_size() for value in values))

    hooks = [part.register_forward_hook(note) for part in network.modules() if not list(part.children())]
    try:
        with torch.enable_grad():
            function(images.batch(torch.arange(1)))
    finally:
        for hook in hooks:
            hook.remove()
    return max(found)
