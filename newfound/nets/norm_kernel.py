"""Batch norm with its shortcut and ReLU as Triton kernels over maps that lie channels last.

A layer takes two passes forward (statistics; result) and two backward (sums; gradient), each reading what it needs
once. Maps are seen as rows [N * H * W, C]; arithmetic is float32 whatever the maps are.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

ROWS, CHANNELS = 64, 64
"""The tile that a program holds at a time."""
STATISTICS, SUMS = (1024, 32), (512, 64)
"""Programs and rows at a time of the passes that sum: the fastest of those tried on an H200, with two warps each."""
WARPS = 2


@triton.jit
def _statistics(x, partial, n_rows, channels, per_program, ROWS: tl.constexpr, CHANNELS: tl.constexpr):  # type: ignore[no-untyped-def]
    """Of each program's rows: the sum, and the sum of squares about their own mean; partial is [2, programs, C].

    Values are taken relative to the first row's: squares of large numbers would lose the small differences.
    """
    program, programs = tl.program_id(0), tl.num_programs(0)
    channel = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    first = program * per_program
    last = tl.minimum(first + per_program, n_rows)
    real = channel < channels
    pilot = tl.load(x + first * channels + channel, mask=real, other=0.0).to(tl.float32)
    total = tl.zeros((ROWS, CHANNELS), tl.float32)
    squares = tl.zeros((ROWS, CHANNELS), tl.float32)
    for start in range(first, last, ROWS):
        row = start + tl.arange(0, ROWS)
        there = (row < last)[:, None] & real[None, :]
        value = tl.load(x + row[:, None] * channels + channel[None, :], mask=there, other=0.0).to(tl.float32)
        value = tl.where(there, value - pilot[None, :], 0.0)
        total += value
        squares += value * value
    count = (last - first).to(tl.float32)
    total = tl.sum(total, 0)
    spread = tl.maximum(tl.sum(squares, 0) - total * total / count, 0.0)
    place = program * channels + channel
    tl.store(partial + place, total + count * pilot, mask=real)
    tl.store(partial + programs * channels + place, spread, mask=real)


@triton.jit
def _finish_statistics(  # type: ignore[no-untyped-def]
    partial, mean_out, deviation_out, running_mean, running_var, n_rows, channels, per_program, programs, momentum, eps,
    PROGRAMS: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """Mean and 1 / deviation [C] from the programs' parts (Chan et al. 1979), and the running statistics moved on."""
    channel = tl.program_id(0) * CHANNELS + tl.arange(0, CHANNELS)
    program = tl.arange(0, PROGRAMS)
    there = (program < programs)[:, None] & (channel < channels)[None, :]
    place = program[:, None] * channels + channel[None, :]
    total = tl.load(partial + place, mask=there, other=0.0)
    spread = tl.load(partial + programs * channels + place, mask=there, other=0.0)
    count = tl.minimum(tl.maximum(n_rows - program * per_program, 0), per_program).to(tl.float32)[:, None]
    n = n_rows.to(tl.float32)
    mean = tl.sum(total, 0) / n
    off = tl.where(there, total / tl.maximum(count, 1.0) - mean[None, :], 0.0)
    variance = tl.sum(spread + count * off * off, 0) / n
    real = channel < channels
    tl.store(mean_out + channel, mean, mask=real)
    tl.store(deviation_out + channel, 1.0 / tl.sqrt(variance + eps), mask=real)
    old = tl.load(running_mean + channel, mask=real, other=0.0)
    tl.store(running_mean + channel, old + momentum * (mean - old), mask=real)
    old = tl.load(running_var + channel, mask=real, other=0.0)
    unbiased = variance * (n / tl.maximum(n - 1.0, 1.0))
    tl.store(running_var + channel, old + momentum * (unbiased - old), mask=real)


@triton.jit
def _apply(  # type: ignore[no-untyped-def]
    x, shortcut, weight, bias, mean, deviation, y, n_rows, channels,
    ADD: tl.constexpr, RELU: tl.constexpr, ROWS: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """The result y from x and the statistics."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    channel = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    real = channel < channels
    there = (row < n_rows)[:, None] & real[None, :]
    place = row[:, None] * channels + channel[None, :]
    scale = tl.load(weight + channel, mask=real) * tl.load(deviation + channel, mask=real)
    shift = tl.load(bias + channel, mask=real) - tl.load(mean + channel, mask=real) * scale
    value = tl.load(x + place, mask=there, other=0.0).to(tl.float32) * scale[None, :] + shift[None, :]
    if ADD:
        value += tl.load(shortcut + place, mask=there, other=0.0).to(tl.float32)
    if RELU:
        value = tl.maximum(value, 0.0)
    tl.store(y + place, value.to(y.dtype.element_ty), mask=there)


@triton.jit
def _gradient_sums(  # type: ignore[no-untyped-def]
    dy, x, y, weight, bias, mean, deviation, passed, partial, n_rows, channels, per_program,
    ADD: tl.constexpr, RELU: tl.constexpr, ROWS: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """Of each program's rows: the sum of the gradient that passed the ReLU, and of its product with the normed maps.

    Without a shortcut the ReLU's gate is computed again from x, which is read anyway; with one it is y > 0, and the
    gradient that passed is stored, since it is the shortcut's.
    """
    program, programs = tl.program_id(0), tl.num_programs(0)
    channel = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    real = channel < channels
    centre = tl.load(mean + channel, mask=real, other=0.0)
    inverse = tl.load(deviation + channel, mask=real, other=0.0)
    gain = tl.load(weight + channel, mask=real, other=0.0) * inverse
    shift = tl.load(bias + channel, mask=real, other=0.0) - centre * gain
    first = program * per_program
    last = tl.minimum(first + per_program, n_rows)
    total = tl.zeros((ROWS, CHANNELS), tl.float32)
    product = tl.zeros((ROWS, CHANNELS), tl.float32)
    for start in range(first, last, ROWS):
        row = start + tl.arange(0, ROWS)
        there = (row < last)[:, None] & real[None, :]
        place = row[:, None] * channels + channel[None, :]
        gradient = tl.load(dy + place, mask=there, other=0.0).to(tl.float32)
        value = tl.load(x + place, mask=there, other=0.0).to(tl.float32)
        if ADD:
            if RELU:
                gradient = tl.where(tl.load(y + place, mask=there, other=0.0).to(tl.float32) > 0, gradient, 0.0)
            tl.store(passed + place, gradient.to(passed.dtype.element_ty), mask=there)
        elif RELU:
            gradient = tl.where(value * gain[None, :] + shift[None, :] > 0, gradient, 0.0)
        total += gradient
        product += gradient * (value - centre[None, :]) * inverse[None, :]
    place = program * channels + channel
    tl.store(partial + place, tl.sum(total, 0), mask=real)
    tl.store(partial + programs * channels + place, tl.sum(product, 0), mask=real)


@triton.jit
def _finish_sums(partial, sums, channels, programs, PROGRAMS: tl.constexpr, CHANNELS: tl.constexpr):  # type: ignore[no-untyped-def]
    """The sums [2, C] over all programs."""
    channel = tl.program_id(0) * CHANNELS + tl.arange(0, CHANNELS)
    program = tl.arange(0, PROGRAMS)
    which = tl.program_id(1)
    there = (program < programs)[:, None] & (channel < channels)[None, :]
    place = (which * programs + program[:, None]) * channels + channel[None, :]
    total = tl.sum(tl.load(partial + place, mask=there, other=0.0), 0)
    tl.store(sums + which * channels + channel, total, mask=channel < channels)


@triton.jit
def _gradient(  # type: ignore[no-untyped-def]
    dy, x, weight, bias, mean, deviation, sums, dx, n_rows, channels,
    GATE: tl.constexpr, ROWS: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """The gradient dx from dy, which has passed the ReLU already unless GATE."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    channel = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    real = channel < channels
    there = (row < n_rows)[:, None] & real[None, :]
    place = row[:, None] * channels + channel[None, :]
    centre = tl.load(mean + channel, mask=real)
    inverse = tl.load(deviation + channel, mask=real)
    gain = tl.load(weight + channel, mask=real) * inverse
    n = n_rows.to(tl.float32)
    first = tl.load(sums + channel, mask=real) / n
    second = tl.load(sums + channels + channel, mask=real) / n
    gradient = tl.load(dy + place, mask=there, other=0.0).to(tl.float32)
    value = tl.load(x + place, mask=there, other=0.0).to(tl.float32)
    if GATE:
        shift = tl.load(bias + channel, mask=real) - centre * gain
        gradient = tl.where(value * gain[None, :] + shift[None, :] > 0, gradient, 0.0)
    normed = (value - centre[None, :]) * inverse[None, :]
    result = gain[None, :] * (gradient - first[None, :] - normed * second[None, :])
    tl.store(dx + place, result.to(dx.dtype.element_ty), mask=there)


class FusedNorm(torch.autograd.Function):
    """relu(norm(maps) + shortcut) in training, with the running statistics moved by ``momentum``."""

    @staticmethod
    def forward(
        ctx: Any,
        maps: Tensor,
        shortcut: Tensor | None,
        weight: Tensor,
        bias: Tensor,
        running_mean: Tensor,
        running_var: Tensor,
        momentum: float,
        eps: float,
        relu: bool,
    ) -> Tensor:
        maps = _channels_last(maps)
        shortcut = None if shortcut is None else _channels_last(shortcut)
        rows, channels = maps.numel() // maps.shape[1], maps.shape[1]
        per_program, programs = _share(rows, channels, *STATISTICS)
        mean, deviation = torch.empty((2, channels), device=maps.device).unbind()
        partial = torch.empty((2, programs, channels), device=maps.device)
        blocks = triton.cdiv(channels, CHANNELS)
        tile = {"ROWS": ROWS, "CHANNELS": CHANNELS}
        _statistics[(programs, blocks)](
            maps, partial, rows, channels, per_program, ROWS=STATISTICS[1], CHANNELS=CHANNELS, num_warps=WARPS
        )
        wide, grid = _finishing(programs, channels)
        _finish_statistics[grid](
            partial, mean, deviation, running_mean, running_var,
            rows, channels, per_program, programs, momentum, eps, **wide,
        )  # fmt: skip
        y = torch.empty_like(maps)
        _apply[(triton.cdiv(rows, ROWS), blocks)](
            maps, maps if shortcut is None else shortcut, weight, bias, mean, deviation, y, rows, channels,
            ADD=shortcut is not None, RELU=relu, **tile,
        )  # fmt: skip
        ctx.relu, ctx.added = relu, shortcut is not None
        ctx.save_for_backward(maps, y if relu and shortcut is not None else None, weight, bias, mean, deviation)
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        maps, y, weight, bias, mean, deviation = ctx.saved_tensors
        dy = _channels_last(gradients[0])
        rows, channels = maps.numel() // maps.shape[1], maps.shape[1]
        per_program, programs = _share(rows, channels, *SUMS)
        partial = torch.empty((2, programs, channels), device=maps.device)
        sums = torch.empty((2, channels), device=maps.device)
        passed = torch.empty_like(maps) if ctx.added else dy
        blocks = triton.cdiv(channels, CHANNELS)
        tile = {"ROWS": ROWS, "CHANNELS": CHANNELS}
        _gradient_sums[(programs, blocks)](
            dy, maps, maps if y is None else y, weight, bias, mean, deviation, passed, partial,
            rows, channels, per_program, ADD=ctx.added, RELU=ctx.relu, ROWS=SUMS[1], CHANNELS=CHANNELS, num_warps=WARPS,
        )  # fmt: skip
        wide, grid = _finishing(programs, channels)
        _finish_sums[(*grid, 2)](partial, sums, channels, programs, **wide)
        dx = torch.empty_like(maps)
        _gradient[(triton.cdiv(rows, ROWS), blocks)](
            passed, maps, weight, bias, mean, deviation, sums, dx, rows, channels,
            GATE=ctx.relu and not ctx.added, **tile,
        )  # fmt: skip
        return dx, passed if ctx.added else None, sums[1], sums[0], None, None, None, None, None


def _channels_last(maps: Tensor) -> Tensor:
    return maps.contiguous(memory_format=torch.channels_last)


def _share(rows: int, channels: int, programs: int, tile: int) -> tuple[int, int]:
    """Rows for each of about so many programs, in whole tiles, and how many programs that makes for a block."""
    programs = max(1, programs // triton.cdiv(channels, CHANNELS))
    each = triton.cdiv(triton.cdiv(rows, programs), tile) * tile
    return each, triton.cdiv(rows, each)


def _finishing(programs: int, channels: int) -> tuple[dict[str, int], tuple[int]]:
    """The tile that holds all programs' parts of a few channels, and the grid over channels."""
    deep = triton.next_power_of_2(programs)
    wide = max(1, min(triton.next_power_of_2(channels), 4096 // deep))
    return {"PROGRAMS": deep, "CHANNELS": wide}, (triton.cdiv(channels, wide),)
