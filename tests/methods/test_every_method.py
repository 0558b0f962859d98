"""What holds for every method there is, found by itself: a new one is tested here without a line."""

import dataclasses
import os
import re
import signal
from pathlib import Path

import numpy as np
import pytest
import torch
from methods_tiny import quick, same, trained_methods

import newfound
from newfound.data.collection import novel_tasks
from newfound.data.look import Look
from newfound.engine.checkpoint import Checkpoints
from newfound.engine.loop import Engine, Training
from newfound.errors import Interrupted
from newfound.methods import get_method
from newfound.methods.base import run_method
from newfound.model import load_model
from newfound.plan.recipe import default_recipe, resolve_settings
from newfound.progress import Reporter

CURVES = Path(newfound.__file__).parent / "report" / "curves.js"
EXPLAINED = set(re.findall(r"\b(\w+): \[\"", CURVES.read_text().partition("const FIGURES = {")[2].partition("\n};")[0]))
"""Figures that the page of a run explains."""


def run(name, collection, folder):
    engine = Engine(collection, torch.device("cpu"), checkpoints=Checkpoints(folder, Reporter(quiet=True)))
    return run_method(quick(name), collection, engine)


def stop_at(monkeypatch, steps):
    """Have training stop, as by SIGTERM, at the step of that number, counted over all stages."""
    real, done = Training._step, iter(range(10**6))

    def stopping(self, index, images):
        if next(done) == steps:
            os.kill(os.getpid(), signal.SIGTERM)
        real(self, index, images)

    monkeypatch.setattr(Training, "_step", stopping)


def count_steps(monkeypatch):
    counted, real = [], Training._step

    def counting(self, index, images):
        counted.append(self.stage.name)
        real(self, index, images)
        assert self.sums.keys() <= EXPLAINED, "the page of a run does not say what this is: newfound/report/curves.js"

    monkeypatch.setattr(Training, "_step", counting)
    return counted


@pytest.mark.parametrize("name", trained_methods())
def test_it_keeps_to_each_task_saves_its_model_and_resumes_bit_for_bit_in_every_stage(
    name, digits, tmp_path, monkeypatch
):
    tasks = novel_tasks(5, ("A", 2, np.arange(120, 190)), ("B", 3, np.arange(190, 270)))
    collection = dataclasses.replace(digits, tasks=tasks)
    with monkeypatch.context() as patch:
        counted = count_steps(patch)
        whole = run(name, collection, tmp_path / "whole")
    assert set(whole.assignments[:70]) <= {5, 6}
    assert set(whole.assignments[70:]) <= {7, 8, 9}
    sizes = np.bincount(whole.assignments, minlength=10)
    assert sizes[5] >= sizes[6]
    assert sizes[7] >= sizes[8] >= sizes[9]
    assert whole.confidence.min() >= 0
    assert whole.confidence.max() <= 1
    assert whole.model.method == name

    whole.model.save(tmp_path / "model")
    loaded, images = load_model(tmp_path / "model"), collection.test.images[:50]
    with torch.no_grad():
        assert torch.equal(loaded(images), whole.model.eval()(images))

    stages = list(dict.fromkeys(counted))
    for number, stage in enumerate(stages):
        folder = tmp_path / f"stopped-{number}"
        with monkeypatch.context() as patch:
            stop_at(patch, counted.index(stage) + counted.count(stage) // 2)  # in the second epoch
            with pytest.raises(Interrupted, match=f"of {stage}$"):
                run(name, collection, folder)
        assert same(whole, run(name, collection, folder)), stage


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("domain", ["natural", "symbolic"])
@pytest.mark.parametrize("name", trained_methods())
def test_what_it_takes_for_folders_can_be_run(name, domain, device):
    seen = Look(images=300, side=40, background=250, share=0.8, colour=0.0)
    method = get_method(name)
    changes = {}
    for fit in method.fitted(seen, domain, device, {}):
        changes |= fit.changes
    settings = resolve_settings(name, default_recipe(name, "folder", f"folder-{domain}"), changes)
    made = method(settings)
    made.check_settings()
    made.check((3, settings.data.size, settings.data.size))
    assert hasattr(settings, method.stretched)
