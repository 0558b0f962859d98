"""A training step as one CUDA graph: kernels are launched all at once instead of one by one."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from newfound.progress import Reporter

WARM_UP = 3
"""Calls that run kernel by kernel first: kernels are compiled and chosen, and optimisers make their memory."""


class Captured:
    """``function`` of tensors of fixed shape, which changes tensors in place and returns nothing; after a few calls it
    is captured, and from then on replayed. Where a graph cannot be had, it goes on kernel by kernel, aloud.

    Whatever it draws must come from ``generator``.
    """

    def __init__(self, function: Callable[..., None], generator: torch.Generator, reporter: Reporter) -> None:
        self.function, self.generator, self.reporter = function, generator, reporter
        self.stream = torch.cuda.Stream(generator.device)
        self.graph: torch.cuda.CUDAGraph | None = None
        self.inputs: tuple[Tensor, ...] = ()
        self.calls = 0
        self.possible = True
        # A step may send its passes along several streams (device.SideStream); autograd waits for them where it has to.
        torch.autograd.graph.set_warn_on_accumulate_grad_stream_mismatch(False)

    def __call__(self, *inputs: Tensor) -> None:
        if self.calls == WARM_UP and self.possible:
            self._capture(inputs)
        self.calls += 1
        if self.graph is None:
            self._launch(inputs)
            return
        for place, value in zip(self.inputs, inputs, strict=True):
            place.copy_(value)
        self.graph.replay()

    def _launch(self, inputs: tuple[Tensor, ...]) -> None:
        """Kernel by kernel, on the stream of the capture: what libraries set up, they set up for each stream."""
        here = torch.cuda.current_stream()
        self.stream.wait_stream(here)
        with torch.cuda.stream(self.stream):
            self.function(*inputs)
        here.wait_stream(self.stream)

    def _capture(self, inputs: tuple[Tensor, ...]) -> None:
        """Record the function without running it."""
        self.inputs = tuple(value.clone() for value in inputs)
        device = torch.cuda.current_device() if self.generator.device.index is None else self.generator.device.index
        generators = (self.generator, torch.cuda.default_generators[device])  # torch binds its own to every graph
        drawn = [(generator, generator.get_state()) for generator in generators]
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(self.generator)
        torch.cuda.synchronize()
        try:
            with torch.cuda.graph(graph, stream=self.stream):
                self.function(*self.inputs)
        except RuntimeError as error:
            self.possible = False
            for generator, state in drawn:  # what was to be captured holds on to the old state
                unbound = torch.Generator(generator.device)
                unbound.set_state(state)
                generator.graphsafe_set_state(unbound)
            reason = str(error).strip().splitlines()[0]
            self.reporter.warn(
                f"steps are launched kernel by kernel, which is slower: they cannot be captured ({reason})"
            )
            return
        self.graph = graph
