"""On a GPU every stage of every method is one graph: nothing in its steps waits for the device or changes its shape."""

import pytest
import torch
from methods_tiny import quick, trained_methods

from newfound.data.digits import read_digits
from newfound.engine.capture import Captured
from newfound.engine.loop import Engine, Training
from newfound.methods.base import run_method

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("name", trained_methods())
def test_every_stage_is_captured(name, monkeypatch):
    captured, real = {}, Training._epoch

    def epoch(self, *given):
        real(self, *given)
        captured[self.stage.name] = isinstance(self.step, Captured) and self.step.graph is not None

    monkeypatch.setattr(Training, "_epoch", epoch)
    collection = read_digits(0).collection
    outcome = run_method(quick(name), collection, Engine(collection, torch.device("cuda")))
    assert len(outcome.assignments) == collection.n_unlabelled
    assert {stage for stage, yes in captured.items() if not yes} == set()
