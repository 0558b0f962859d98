"""Refinement: swapped, balanced labels between the stages."""

import copy
import dataclasses

import numpy as np
import pytest
import torch
from methods_tiny import NeverWaits, chosen, fit
from reference.sinkhorn import sinkhorn

from newfound.data.collection import Collection, Task
from newfound.engine.loop import Engine
from newfound.engine.stage import Batch
from newfound.errors import UserError
from newfound.methods.apl.method import APL, joint_labels
from newfound.methods.apl.refinement import Refinement, refinement_batches
from newfound.methods.apl.selftraining import SelfTraining, class_means
from newfound.model import Encoder
from newfound.nets.heads import CosineClassifier
from newfound.progress import Reporter

ON = {"refinement__epochs": 1, "refinement__batch": 32, "refinement__warmup_epochs": 0}


def make(collection, **changes):
    torch.manual_seed(0)
    settings = chosen(**ON, **changes)
    engine = Engine(collection, torch.device("cpu"))
    encoder = Encoder("tiny", 1, 8, torch.tensor([0.3]), torch.tensor([0.4]))
    return Refinement(encoder, CosineClassifier(encoder.width, 10), collection, settings).train(), engine


def batch_of(stage, engine):
    index = stage.sampler.epoch(torch.Generator().manual_seed(0))[0]
    drawn = stage.views.draw(torch.Generator().manual_seed(0), len(index), torch.tensor(0))
    return Batch(stage.views.apply(engine.train_images.batch(index), drawn), engine.labels[index], index)


def logits_of(encoder, head, batch):
    """For both views, a list of the logits of each image."""
    features = encoder(batch.views.whole.flatten(0, 1)).unflatten(0, (2, -1))
    rows = head.rows / head.rows.norm(dim=1, keepdim=True)
    return [[rows @ f / f.norm() / 0.1 for f in view] for view in features]


@torch.no_grad()
def make_another(teacher):
    """At first a teacher is its student."""
    for parameter in teacher.parameters():
        parameter.add_(0.1 * torch.randn_like(parameter))


@pytest.mark.parametrize(("temperature", "teacher"), [(0.5, 0.0), (1.0, 0.0), (0.5, 0.9)])
def test_loss_and_gradient_are_those_of_labels_worked_out_one_by_one(digits, temperature, teacher):
    stage, engine = make(digits, refinement__temperature=temperature, refinement__teacher=teacher)
    batch = batch_of(stage, engine)
    if teacher:
        make_another(stage.teacher)
    twin = copy.deepcopy(stage)
    n, known = len(batch.index), sum(int(i) < 120 for i in batch.index)
    logits = logits_of(twin.encoder, twin.head, batch)
    said = logits_of(*twin.teacher, batch) if teacher else logits
    total = torch.zeros(())
    for view in (0, 1):
        other = [said[1 - view][row][5:].detach().double().tolist() for row in range(known, n)]
        labels = torch.tensor(sinkhorn(other, temperature, 3)).float()
        for row in range(n):
            logs = logits[view][row].log_softmax(0)
            if row < known:
                total = total - logs[int(digits.labels[int(batch.index[row])])]
            else:
                total = total - (labels[row - known] * logs[5:]).sum()
    expected = total / (2 * n)
    figures = stage.step(batch, torch.tensor(0))
    torch.testing.assert_close(figures["loss"], expected, rtol=1e-4, atol=1e-5)
    figures["loss"].backward()
    expected.backward()
    for (name, ours), theirs in zip(stage.named_parameters(), twin.parameters(), strict=True):
        if name.startswith("teacher."):
            assert ours.grad is None
        else:
            torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-3, atol=1e-5)


def test_its_teacher_follows_encoder_and_classifier_with_statistics_of_its_own(digits):
    stage, engine = make(digits, refinement__teacher=0.9)
    make_another(stage.teacher)
    before = [p.clone() for p in stage.teacher.parameters()]
    optimiser = torch.optim.SGD(stage.parameter_groups(), lr=0.5)
    stage.step(batch_of(stage, engine), torch.tensor(0))["loss"].backward()
    optimiser.step()
    assert all(torch.equal(old, new) for old, new in zip(before, stage.teacher.parameters(), strict=True))
    stage.after_step(torch.tensor(0))
    student = [*stage.encoder.parameters(), *stage.head.parameters()]
    for old, new, s in zip(before, stage.teacher.parameters(), student, strict=True):
        torch.testing.assert_close(new, 0.9 * old + 0.1 * s)
    own = {name: value for name, value in stage.teacher[0].named_buffers() if "running" in name}
    students = dict(stage.encoder.named_buffers())
    assert own
    assert not any(torch.equal(value, students[name]) for name, value in own.items())


def test_its_classifier_begins_as_the_prototypes_of_what_stage_1_found(digits, monkeypatch):
    begun = []
    monkeypatch.setattr(Refinement, "before_epoch", lambda self, epoch: begun.append(copy.deepcopy(self)))
    found = fit(digits, stage1__epochs=1, **ON)
    (stage,) = begun
    engine = Engine(digits, torch.device("cpu"))
    labels = joint_labels(engine, torch.from_numpy(found.earlier["stage1"]))
    features = engine.features(stage.encoder, engine.train_images, title="")
    torch.testing.assert_close(stage.head.rows.data, class_means(features, labels, 10), rtol=1e-4, atol=1e-5)


def test_a_run_with_it_goes_on_from_the_clusters_of_its_features(digits, monkeypatch):
    begun = []
    real = SelfTraining.__init__

    def spy(self, number, encoder, head, collection, chosen, labels, weights, prototypes):
        begun.append((labels.clone(), prototypes.clone()))
        real(self, number, encoder, head, collection, chosen, labels, weights, prototypes)

    monkeypatch.setattr(SelfTraining, "__init__", spy)
    plain, refined = (fit(digits, stage1__epochs=1, **changes) for changes in ({}, ON))
    alone = fit(digits, stage1__epochs=1, selftraining__iterations=0, **ON)
    assert set(refined.earlier) == {*plain.earlier, "refinement"}
    assert np.array_equal(refined.earlier["stage1"], plain.earlier["stage1"])
    assert np.array_equal(alone.assignments, refined.earlier["refinement"])
    assert np.array_equal(alone.assignments, alone.earlier["refinement"])
    assert torch.equal(refined.before, alone.features)
    assert not torch.equal(alone.features, plain.before)
    found, prototypes = begun[2]  # the plain run had two iterations
    assert np.array_equal(found[120:] - 5, refined.earlier["refinement"])
    assert not np.array_equal(found[120:], begun[0][0][120:])
    torch.testing.assert_close(prototypes, class_means(alone.features, found, 10))


@pytest.mark.parametrize("refresh", [False, True])
def test_statistics_are_estimated_anew_after_it_where_they_are_before(digits, monkeypatch, refresh):
    times = []
    monkeypatch.setattr("newfound.methods.apl.method.refresh_statistics", lambda *_: times.append(1))
    fit(digits, stage1__epochs=1, refresh_norm=refresh, **ON)
    assert len(times) == 2 * refresh


@pytest.mark.parametrize(
    ("labelled", "unlabelled", "k", "batch", "expected"),
    [
        (120, 150, 5, 32, 18),  # their share in the collection: 17.8
        (120, 15, 5, 32, 15),  # three for each category, instead of 3.6 in all
        (120, 150, 10, 32, 24),  # three quarters of the batch: 2.4 for each
    ],
)
def test_a_batch_has_unlabelled_images_enough_to_balance(digits, labelled, unlabelled, k, batch, expected):
    few = some(digits, labelled, unlabelled, k)
    sampler = refinement_batches(few, chosen(refinement__batch=batch))
    assert (sampler.pools[1].per_batch, sampler.batch) == (expected, batch)


def test_where_a_batch_cannot_be_balanced_it_is_left_out_with_a_warning(digits, capsys):
    engine = Engine(some(digits, 120, 150, 20), torch.device("cpu"), reporter=Reporter())
    found = APL(chosen(stage1__epochs=1, **ON)).fit(engine.collection, engine)
    assert "refinement" not in found.earlier
    said = " ".join(capsys.readouterr().err.split())
    assert "the refinement is left out: a batch holds 24 unlabelled images, too few to balance 20 novel" in said


def test_labels_of_prototypes_that_are_outdated_are_refused():
    with pytest.raises(UserError, match=r"set refinement\.epochs=0 too"):
        chosen(**ON, selftraining__labels="online")


def some(digits, labelled, unlabelled, k):
    """The first labelled and unlabelled digits, with ``k`` novel categories to be found."""
    rows = np.concatenate([np.arange(labelled), 120 + np.arange(unlabelled)])
    task = Task("", k, np.arange(labelled, labelled + unlabelled))
    return Collection(digits.train.take(rows), digits.labels[rows], digits.classes, (task,), digits.test)


def test_its_views_may_show_more_of_an_image_than_stage_1_s(digits):
    natural = {"views__domain": "natural", "views__whole_scale": (0.3, 1.0)}
    assert make(digits, **natural)[0].views.whole_scale == (0.3, 1.0)
    assert make(digits, **natural, refinement__whole_scale=(0.6, 1.0))[0].views.whole_scale == (0.6, 1.0)


def test_labels_stay_within_an_image_s_own_task(digits):
    two = dataclasses.replace(digits, tasks=(Task("A", 2, np.arange(120, 190)), Task("B", 3, np.arange(190, 270))))
    stage, _ = make(two)
    rows = torch.tensor([0, 69, 70, 149])
    labels = stage._labels(torch.randn(2, 4, 5, generator=torch.Generator().manual_seed(0)), rows)
    torch.testing.assert_close(labels.sum(-1), torch.ones(2, 4))
    assert (labels[:, :2, 2:] == 0).all()
    assert (labels[:, 2:, :2] == 0).all()


def test_a_step_never_waits_for_the_device(digits):
    stage, engine = make(digits, refinement__teacher=0.9)
    batch = batch_of(stage, engine)
    with NeverWaits():
        stage.step(batch, torch.tensor(0))
        stage.after_step(torch.tensor(0))
