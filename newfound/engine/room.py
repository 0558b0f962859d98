"""A step of training that does not fit into the memory ends in a sentence before it takes all there is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from newfound.errors import UserError
from newfound.memory import LITTLE, SHARE, free_memory, size
from newfound.process import give_back_freed_memory

BACKWARD = 1.5
"""What a step takes at its peak, in what is kept for its backward pass: 1.1 to 1.9 here (docs/log/security.md)."""


@contextmanager
def require_room(device: torch.device, key: str) -> Iterator[None]:
    """While entered, what is kept for the backward pass on a CPU is counted: a UserError once the step would take more
    than its share of what was free before. ``key`` names the plan in the settings."""
    if device.type != "cpu":
        yield
        return
    free = free_memory()
    kept: dict[int, int] = {}
    total = largest = 0
    trimmed = False

    def keep(tensor: Tensor) -> Tensor:
        nonlocal total, largest, free, trimmed
        whole = tensor if tensor._base is None else tensor._base
        if not isinstance(whole, nn.Parameter):  # which was there before
            storage = tensor.untyped_storage()
            total += storage.nbytes() - kept.get(storage.data_ptr(), 0)
            kept[storage.data_ptr()] = storage.nbytes()
            largest = max(largest, storage.nbytes())
        needed = max(BACKWARD * total, total + 2 * largest)  # the gradients before and after the largest layer
        if needed > max(LITTLE, SHARE * free) and not trimmed:  # what earlier stages left in the heap is free too
            trimmed = True
            give_back_freed_memory()
            free = max(free, free_memory() + total)
        if needed > max(LITTLE, SHARE * free):
            raise UserError(
                f"a step of training takes more than four fifths of the {size(free)} of memory that were free: "
                f"start a new run with a smaller {key}.batch or data.size, or go on where more is free"
            )
        return tensor.detach()  # a result itself would keep what made it, in a circle that only a backward pass opens

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        yield
