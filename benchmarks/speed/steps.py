"""Steps of a stage on images of noise, and their times: what run.py and uno.py share."""

from __future__ import annotations

import statistics
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from newfound.data.collection import UNKNOWN, Collection, novel_tasks
from newfound.data.store import ImageStore
from newfound.engine.capture import WARM_UP, Captured
from newfound.engine.loop import Engine, Training
from newfound.engine.stage import Stage
from newfound.progress import Reporter

Step = Callable[[Tensor, Tensor], None]
"""What is done with the indices and the images of a batch."""


def random_collection(n: int, known: int, novel: int, size: int = 32, labelled: float = 0.5) -> Collection:
    """``n`` images of noise, that share of them labelled."""
    generator, first = np.random.default_rng(0), round(labelled * n)
    images = generator.integers(0, 256, (n, 3, size, size), dtype=np.uint8)
    labels = np.full(n, UNKNOWN)
    labels[:first] = generator.integers(0, known, first)
    tasks = novel_tasks(known, ("", novel, np.arange(first, n)))
    return Collection(ImageStore(images), labels, tuple(map(str, range(known))), tasks)


class StageBench(ABC):
    """A stage on a device, its steps, and their times."""

    def __init__(self, device: torch.device, collection: Collection, settings: Any) -> None:
        self.device, self.collection, self.settings = device, collection, settings
        torch.manual_seed(0)
        self.engine = Engine(self.collection, device)
        self.generator = torch.Generator(device)
        self.stage = self.new_stage()
        self.batch = self.stage.sampler.batch
        self.order = self.stage.sampler.epoch(torch.Generator().manual_seed(0))

    @abstractmethod
    def new_stage(self) -> Any:
        """The stage with fresh weights, on the device, in training."""

    @abstractmethod
    def bare(self) -> Step:
        """The model's step alone, on views that are already there."""

    def time(self, step: Step, repeats: int, stretches: int = 5) -> float:
        """Milliseconds a step: the median over stretches of ``repeats`` steps."""
        batches = list(self.engine.train_images.batches(self.order[: min(8, len(self.order))]))

        def stretch(n: int) -> None:
            for i in range(n):
                step(*batches[i % len(batches)])

        stretch(WARM_UP + 2)
        return statistics.median(self.clock(lambda: stretch(repeats)) / repeats for _ in range(stretches))

    def clock(self, work: Callable[[], None]) -> float:
        """Milliseconds that ``work`` takes on the device."""
        if self.device.type != "cuda":
            began = time.perf_counter()
            work()
            return 1e3 * (time.perf_counter() - began)
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        start.record()
        work()
        end.record()
        torch.cuda.synchronize()
        return start.elapsed_time(end)

    def captured(self, function: Step) -> Any:
        if self.device.type != "cuda":
            return function
        return Captured(function, self.generator, Reporter())

    def full(self, capture: bool) -> tuple[Training, Step]:
        """Our step with everything on."""
        self.engine.capture = capture
        stage: Stage = self.new_stage()
        training = Training(self.engine, stage)
        stage.before_epoch(0, self.engine)
        stage.train()
        training.total = training.steps * training.plan.epochs
        return training, training.step

    def flops(self) -> float:
        """Floating-point operations of matrix products and convolutions in one bare step."""
        from torch.utils.flop_counter import FlopCounterMode

        step = self.bare()
        with FlopCounterMode(display=False) as counter:
            step(self.order[0], self.order[0])
        return float(counter.get_total_flops())
