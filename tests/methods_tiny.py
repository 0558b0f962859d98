"""APL small enough for a test, and what tests of methods share."""

import dataclasses
import os
import signal

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from newfound.config.settings import PlanSettings
from newfound.engine.loop import Engine
from newfound.engine.stage import Batch
from newfound.errors import Interrupted
from newfound.methods import method_names
from newfound.methods.base import run_method
from newfound.methods.parts.representation import Representation
from newfound.model import Encoder
from newfound.plan.recipe import recipe_names, resolve_settings

TINY = {
    "stage1.epochs": 2,
    "stage1.batch": 32,
    "stage1.warmup_epochs": 1,
    "stage2.batch": 32,
    "dino.hidden": 32,
    "dino.bottleneck": 16,
    "dino.out": 64,
    "views.extra": 2,
}


def chosen(**changes):
    return resolve_settings("apl", "apl-digits", TINY | {k.replace("__", "."): v for k, v in changes.items()})


def fit(collection, **changes):
    return run_method(chosen(**changes), collection, Engine(collection, torch.device("cpu")))


def make_stage(collection, **changes):
    torch.manual_seed(0)
    settings = chosen(**changes)
    channels, size, _ = collection.train.shape
    encoder = Encoder(
        settings.network, channels, size, torch.tensor([0.3]), torch.tensor([0.4]), dimension=settings.dimension
    )
    engine = Engine(collection, torch.device("cpu"))
    return Representation(encoder, collection, settings), engine


def one_step(stage, engine, t=0):
    stage.train()
    index = stage.sampler.epoch(torch.Generator().manual_seed(t))[0]
    step = torch.tensor(t)
    parameters = stage.views.draw(torch.Generator().manual_seed(t), len(index), step)
    views = stage.views.apply(engine.train_images.batch(index), parameters)
    batch = Batch(views, engine.labels[index], index, stage.sampler.n_known)
    return stage.step(batch, step), batch


class NeverWaits(TorchDispatchMode):
    """Fails where a value is read on the host."""

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        assert function is not torch.ops.aten._local_scalar_dense.default, "a value is read on the host"
        return function(*arguments, **keywords or {})


def resumes(run, stage, at, monkeypatch, folder):
    """Whether a run that was stopped, as by SIGTERM, at a step of that class of stages ends bit for bit like a whole
    one. ``run`` gives the outcome of a run with its checkpoints in a folder."""
    whole, real = run(folder / "whole"), stage.step

    def stopping(self, batch, t):
        if int(t) == at:
            os.kill(os.getpid(), signal.SIGTERM)
        return real(self, batch, t)

    with monkeypatch.context() as patch:
        patch.setattr(stage, "step", stopping)
        with pytest.raises(Interrupted, match=f"stopped after step {at + 1} of"):
            run(folder / "stopped")
    return same(whole, run(folder / "stopped"))


def same(one, other):
    """Whether two outcomes have the same assignments and the same model, to the bit."""
    theirs = other.model.state_dict()
    equal = all(torch.equal(value, theirs[name]) for name, value in one.model.state_dict().items())
    return equal and one.assignments.tolist() == other.assignments.tolist()


def trained_methods():
    """The methods that can train a network of their own on images: they have a recipe for the digits."""
    return [name for name in method_names() if f"{name}-digits" in recipe_names()]


def quick(name, **changes):
    """The settings of that method's recipe for the digits, with two epochs a stage, and with the changes."""
    settings = resolve_settings(name, f"{name}-digits", {})
    values = {field.name: getattr(settings, field.name) for field in dataclasses.fields(settings)}
    plans = [plan for plan, value in values.items() if isinstance(value, PlanSettings)]
    short = {"epochs": 2, "batch": 48, "warmup_epochs": 0}
    shortened = {f"{plan}.{key}": value for plan in plans for key, value in short.items()}
    return resolve_settings(name, f"{name}-digits", shortened | changes)
