import contextlib
import math
import resource

import numpy as np
import pytest
import torch
from torch import nn

from newfound.config.settings import PlanSettings
from newfound.data.collection import UNKNOWN, Collection, novel_tasks
from newfound.data.store import ImageStore
from newfound.engine import loop
from newfound.engine.checkpoint import Checkpoints
from newfound.engine.loop import Engine
from newfound.engine.metrics import Metrics
from newfound.engine.sampler import labelled_sampler
from newfound.engine.stage import Stage
from newfound.progress import Reporter
from newfound.views.crop import PadCropFlip


@pytest.fixture(autouse=True)
def checkpoints_cost_nothing(monkeypatch):
    """Every epoch is saved, however little it took."""
    monkeypatch.setattr(loop, "SHARE", math.inf)


class Toy(Stage):
    """A linear classifier with everything a stage may have: buffers, after_step, before_epoch."""

    def __init__(self, collection, name="stage1", on_step=None, **plan):
        super().__init__()
        self.name = name
        self.plan = PlanSettings(**{"epochs": 4, "batch": 8, "lr": 0.05} | plan)
        self.linear = nn.Sequential(
            nn.Flatten(), nn.Linear(64, 16, bias=False), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 2)
        )
        self.register_buffer("average", torch.zeros(16, 64))
        self.register_buffer("epochs_begun", torch.zeros((), dtype=torch.int64))
        self.views = PadCropFlip(1, True)
        self.sampler = labelled_sampler(collection.labelled, self.plan.batch)
        self.on_step = on_step or (lambda step: None)
        self.count = 0

    def step(self, batch, t):
        self.on_step(int(t))
        logits = self.linear(batch.views)
        return {"loss": nn.functional.cross_entropy(logits, batch.labels), "height": logits.abs().mean()}

    def after_step(self, t):
        self.average.lerp_(self.linear[1].weight, 0.1)

    def before_epoch(self, epoch, engine):
        self.epochs_begun += 1


@contextlib.contextmanager
def full_disk(room):
    """Files cannot grow beyond ``room`` bytes: a write fails half-way, as on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture
def disk():
    return full_disk


@pytest.fixture
def collection():
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (50, 1, 8, 8), dtype=np.uint8)
    labels = np.array([i % 2 for i in range(42)] + [UNKNOWN] * 8)
    return Collection(ImageStore(images), labels, ("a", "b"), novel_tasks(2, ("", 2, np.arange(42, 50))))


@pytest.fixture
def make_engine(collection):
    engines = []

    def make(folder=None, **more):
        if folder is not None:
            folder.mkdir(exist_ok=True)
            reporter = Reporter(quiet=True)
            files = {
                "checkpoints": Checkpoints(folder / "checkpoint", reporter),
                "metrics": Metrics(folder / "metrics.jsonl"),
            }
            more = files | more
        engines.append(Engine(collection, torch.device("cpu"), log_every=3, **more))
        return engines[-1]

    yield make
    for engine in engines:
        if engine.metrics:
            engine.metrics.close()


@pytest.fixture
def make_toy(collection):
    def make(**more):
        torch.manual_seed(0)
        return Toy(collection, **more)

    return make
