"""On a GPU the stages of every method are graphs: nothing in their steps waits for the device or changes its shape."""

import pytest
import torch
from methods_tiny import quick, trained_methods

from newfound.data.digits import read_digits
from newfound.engine.capture import Captured
from newfound.engine.loop import Engine, Training
from newfound.methods.base import run_method

pytestmark = pytest.mark.gpu


VARIANTS = [
    *(("apl", {"instance.learner": learner}) for learner in ("simclr", "moco", "mocov2", "rotation", "none")),
    ("autonovel", {"incremental": True}),
    ("autonovel", {"supervised_loss": "prototypical", "episodes.classes": 5}),
    *(("dtc", {"variant": variant, "hidden": 16}) for variant in ("baseline", "te", "tep")),
    *((name, {"self_supervision": True}) for name in ("dtc", "kcl", "mcl")),
]


@pytest.mark.parametrize(("name", "changes"), [*((name, {}) for name in trained_methods()), *VARIANTS])
def test_every_stage_is_captured(name, changes, monkeypatch):
    captured, real = {}, Training._epoch

    def epoch(self, *given):
        real(self, *given)
        captured[self.stage.name] = isinstance(self.step, Captured) and self.step.graph is not None

    monkeypatch.setattr(Training, "_epoch", epoch)
    collection = read_digits(0).collection
    outcome = run_method(quick(name, **changes), collection, Engine(collection, torch.device("cuda")))
    assert len(outcome.assignments) == collection.n_unlabelled
    assert {stage for stage, yes in captured.items() if not yes} == set()
