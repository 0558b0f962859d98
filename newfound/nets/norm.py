"""Batch norm, the sum with a shortcut and ReLU in one go: on a GPU they would each pass over memory by themselves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec

import torch.nn.functional as F
from torch import Tensor, nn


def batch_norm(maps: Tensor, norm: nn.BatchNorm2d, *, shortcut: Tensor | None = None, relu: bool = True) -> Tensor:
    """relu(norm(maps) + shortcut) for maps and shortcut [N, C, H, W]; without either where not asked for.

    In training on a GPU a fused kernel does it; otherwise torch's own operations do.
    """
    if fused(maps, norm):
        from newfound.nets.norm_kernel import FusedNorm

        result: Tensor = FusedNorm.apply(
            maps, shortcut, norm.weight, norm.bias, norm.running_mean, norm.running_var, norm.momentum, norm.eps, relu
        )
        return result
    normed: Tensor = norm(maps)
    if shortcut is not None:
        normed = normed + shortcut
    return F.relu(normed) if relu else normed


def fused(maps: Tensor, norm: nn.BatchNorm2d) -> bool:
    """Whether the fused kernel is for these maps."""
    small = maps.numel() < 2**31  # the kernel counts in 32 bits
    return maps.is_cuda and small and norm.training and norm.momentum is not None and has_triton()


@cache
def has_triton() -> bool:
    """Whether Triton, which comes with PyTorch for CUDA on Linux, is there."""
    return find_spec("triton") is not None


@contextmanager
def frozen_statistics(module: nn.Module) -> Iterator[None]:
    """Batch norm goes by the batch's statistics, as in training, without moving the running ones: what small or turned
    views look like must not enter the statistics that features are read with."""
    norms = [m for m in module.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    before = [norm.momentum for norm in norms]
    for norm in norms:
        norm.momentum = 0.0
    try:
        yield
    finally:
        for norm, momentum in zip(norms, before, strict=True):
            norm.momentum = momentum
