"""Where and how precisely to compute."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache

import torch
from torch import Tensor

from newfound.config.mapping import brief
from newfound.engine.own import one_thread_if_forked
from newfound.errors import UserError
from newfound.process import is_forked


def pick_device(name: str) -> torch.device:
    """The device of that name; "auto" is the GPU where there is one."""
    one_thread_if_forked()
    if not isinstance(name, str | torch.device):
        raise UserError(f"--device {brief(name)}: write auto, cpu, cuda or cuda:N")
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise UserError(f"--device {name}: write auto, cpu, cuda or cuda:N") from None
    if device.type not in ("cpu", "cuda"):
        raise UserError(f"--device {name}: only cpu and cuda are supported")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise UserError(f"--device {name}: PyTorch {torch.__version__} finds no CUDA device here; use --device cpu")
    if device.type == "cuda" and is_forked() and torch.cuda._is_in_bad_fork():
        raise UserError(
            f"--device {name}: this process was forked from one that uses the GPU, and CUDA works in no such process; "
            "start it by multiprocessing.get_context('spawn'), or take the device cpu"
        )
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise UserError(f"--device {name}: there are {torch.cuda.device_count()} CUDA devices, numbered from 0")
    return device


def precision(device: torch.device) -> AbstractContextManager[object]:
    """bfloat16 autocast on a GPU; float32, without a context, on a CPU."""
    return torch.autocast("cuda", dtype=torch.bfloat16) if device.type == "cuda" else nullcontext()


@contextmanager
def fastest_kernels(worth: bool = True) -> Iterator[None]:
    """cuDNN tries its algorithms for each new shape and keeps the fastest, if ``worth`` the seconds that takes."""
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = worth
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


@cache
def _stream(name: str, device: torch.device) -> torch.cuda.Stream:
    """The one stream of that name: memory is kept for each stream, so a new one every step would need it many times."""
    return torch.cuda.Stream(device)


class SideStream:
    """Work on a stream of its own, beside what follows it, on a GPU; on a CPU one thing comes after the other.

    ``with SideStream("name", tensor) as other: result = ...`` begins it, on the device of ``tensor`` and the stream of
    that name; ``other.join(result)`` waits for it and hands over what it made. Small kernels hide behind large ones
    that way, and passes over memory behind matrix products.
    """

    def __init__(self, name: str, tensor: Tensor) -> None:
        self.stream = _stream(name, tensor.device) if tensor.is_cuda else None

    def __enter__(self) -> SideStream:
        if self.stream is not None:
            self.stream.wait_stream(torch.cuda.current_stream())
            self.context = torch.cuda.stream(self.stream)
            self.context.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        if self.stream is not None:
            self.context.__exit__(*error)

    def join(self, *results: Tensor) -> None:
        """From here on the results may be used."""
        if self.stream is not None:
            here = torch.cuda.current_stream()
            here.wait_stream(self.stream)
            for result in results:
                result.record_stream(here)


def describe_device(device: torch.device) -> str:
    """What a record says of the hardware."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    threads = torch.get_num_threads()
    return f"cpu, {threads} {'thread' if threads == 1 else 'threads'}"
