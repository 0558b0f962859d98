"""APL small enough for a test."""

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from newfound.engine.loop import Engine
from newfound.engine.stage import Batch
from newfound.methods.apl.representation import Representation
from newfound.methods.base import run_method
from newfound.model import Encoder
from newfound.plan.recipe import resolve_settings

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
