"""Refinement: swapped, balanced labels after stage II."""

import copy
import dataclasses

import numpy as np
import pytest
import torch
from methods_tiny import NeverWaits, chosen, fit
from reference.sinkhorn import sinkhorn

from newfound.data.collection import Task
from newfound.engine.loop import Engine
from newfound.engine.stage import Batch
from newfound.methods.refinement import Refinement
from newfound.model import Encoder
from newfound.nets.heads import classifier

ON = {"refinement__epochs": 1}


def make(collection, **changes):
    torch.manual_seed(0)
    settings = chosen(**ON, **changes)
    engine = Engine(collection, torch.device("cpu"))
    encoder = Encoder("tiny", 1, 8, torch.tensor([0.3]), torch.tensor([0.4]))
    head = classifier(settings.classifier.kind, encoder.width, 10, 0.1)
    stage = Refinement(encoder, head, collection, settings, engine)
    stage.before_epoch(0)
    return stage.train(), engine


def batch_of(stage, engine):
    index = stage.sampler.epoch(torch.Generator().manual_seed(0))[0]
    drawn = stage.views.draw(torch.Generator().manual_seed(0), len(index), torch.tensor(0))
    return Batch(stage.views.apply(engine.train_images.batch(index), drawn), engine.labels[index], index)


@pytest.mark.parametrize("kind", ["linear", "cosine"])
def test_loss_and_gradient_are_those_of_labels_worked_out_one_by_one(digits, kind):
    stage, engine = make(digits, classifier__kind=kind)
    batch = batch_of(stage, engine)
    twin, bank = copy.deepcopy(stage), stage.bank.clone()
    logits = twin.head(twin.encoder(batch.views.whole.flatten(0, 1))).unflatten(0, (2, -1))
    n = len(batch.index)
    total = torch.zeros(())
    for view in (0, 1):
        known = sum(int(i) < 120 for i in batch.index)
        other = bank.clone()
        for row in range(known, n):
            other[int(batch.index[row]) - 120] = logits[1 - view, row, 5:].detach()
        labels = torch.tensor(sinkhorn(other.double().tolist(), 0.5, 3))
        for row in range(n):
            image = int(batch.index[row])
            logs = logits[view, row].log_softmax(0)
            if image < 120:
                total = total - logs[int(digits.labels[image])]
            else:
                total = total - (labels[image - 120].float() * logs[5:]).sum()
    expected = total / (2 * n)
    figures = stage.step(batch, torch.tensor(0))
    torch.testing.assert_close(figures["loss"], expected, rtol=1e-4, atol=1e-5)
    figures["loss"].backward()
    expected.backward()
    for ours, theirs in zip(stage.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-3, atol=1e-5)
    rows = batch.index[batch.index >= 120] - 120
    torch.testing.assert_close(stage.bank[rows], logits[:, known:, 5:].mean(0).detach(), rtol=1e-4, atol=1e-5)
    untouched = torch.ones(150, dtype=torch.bool)
    untouched[rows] = False
    assert torch.equal(stage.bank[untouched], bank[untouched])


def test_it_starts_from_what_the_classifier_says_of_each_plain_image(digits):
    stage, engine = make(digits)
    stage.eval()
    with torch.no_grad():
        expected = stage.head(stage.encoder(engine.train_images.batch(torch.arange(120, 270))))[:, 5:]
    torch.testing.assert_close(stage.bank, expected, rtol=1e-4, atol=1e-5)


def test_a_run_with_it_ends_in_what_it_found(digits):
    plain, refined = fit(digits, stage1__epochs=1), fit(digits, stage1__epochs=1, **ON)
    assert set(refined.earlier) == {*plain.earlier, "refinement"}
    assert np.array_equal(refined.assignments, refined.earlier["refinement"])
    assert np.array_equal(refined.earlier["stage2-2"], plain.assignments)
    assert not torch.equal(plain.model.classifier.weight, refined.model.classifier.weight)


def test_labels_stay_within_an_image_s_own_task(digits):
    two = dataclasses.replace(digits, tasks=(Task("A", 2, np.arange(120, 190)), Task("B", 3, np.arange(190, 270))))
    stage, _ = make(two)
    rows = torch.tensor([0, 69, 70, 149])
    labels = stage._labels(torch.randn(2, 4, 5, generator=torch.Generator().manual_seed(0)), rows)
    torch.testing.assert_close(labels.sum(-1), torch.ones(2, 4))
    assert (labels[:, :2, 2:] == 0).all()
    assert (labels[:, 2:, :2] == 0).all()


def test_a_step_never_waits_for_the_device(digits):
    stage, engine = make(digits)
    batch = batch_of(stage, engine)
    with NeverWaits():
        stage.step(batch, torch.tensor(0))
