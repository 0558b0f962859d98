"""Torch as newfound needs it, whatever the caller has set; and as the caller had set it again afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import torch

from newfound.process import is_forked


@contextmanager
def own_torch(threads: int | None = None, *, random: bool = True) -> Iterator[None]:
    """While entered: ``threads`` threads, if given, float32 as the default type, the CPU as the default device, and
    gradients where they are asked for. Afterwards all that, and with ``random`` torch's random numbers, are as before.
    """
    one_thread_if_forked()
    before = torch.get_num_threads(), torch.get_default_dtype(), torch.get_rng_state() if random else None
    elsewhere = torch.get_default_device().type != "cpu"
    try:
        if threads is not None:
            torch.set_num_threads(threads)
        torch.set_default_dtype(torch.float32)
        with torch.inference_mode(False), torch.enable_grad(), torch.device("cpu") if elsewhere else nullcontext():
            yield
    finally:
        if torch.get_num_threads() != before[0]:
            torch.set_num_threads(before[0])
        torch.set_default_dtype(before[1])
        if before[2] is not None:
            torch.set_rng_state(before[2])


def one_thread_if_forked() -> None:
    """Have a process that was forked compute with one thread: those of the process it came from are not there, and
    OpenMP would wait for them for ever."""
    if is_forked() and torch.get_num_threads() > 1:
        torch.set_num_threads(1)
