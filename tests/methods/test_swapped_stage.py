"""Swapped prediction, as uno and iic train with it: targets, heads, terms, tasks, and what it is good for."""

import copy
import dataclasses

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from methods_tiny import NeverWaits, one_step, resumes
from reference import divergence, matching
from reference import sinkhorn as balancing
from reference import swapped as reference

from newfound.data.collection import novel_tasks
from newfound.data.digits import read_digits
from newfound.engine.checkpoint import Checkpoints
from newfound.engine.loop import Engine
from newfound.losses import inter_class
from newfound.methods.base import run_method
from newfound.methods.parts import swapped
from newfound.methods.parts.encoder import make_encoder
from newfound.methods.parts.supervised import Supervised
from newfound.methods.parts.swapped import SwappedPrediction
from newfound.methods.parts.views import make_views
from newfound.methods.parts.votes import votes
from newfound.model.model import load_model
from newfound.nets.heads import CosineClassifier
from newfound.plan.recipe import resolve_settings
from newfound.progress import Reporter

TINY = {
    "supervised.epochs": 2,
    "supervised.batch": 32,
    "supervised.warmup_epochs": 0,
    "discovery.epochs": 2,
    "discovery.batch": 32,
    "discovery.warmup_epochs": 0,
    "heads.count": 3,
    "heads.hidden": 16,
    "heads.bottleneck": 8,
    "heads.over": 2,
}


def chosen(name="uno", **changes):
    return resolve_settings(name, f"{name}-digits", TINY | {k.replace("__", "."): v for k, v in changes.items()})


def begin(collection, name="uno", **changes):
    torch.manual_seed(0)
    settings = chosen(name, **changes)
    encoder = make_encoder(settings.network, collection, None)
    known = CosineClassifier(encoder.width, len(collection.classes), settings.heads.temperature)
    views = make_views(settings.views, encoder.size)
    return SwappedPrediction(encoder, known, collection, settings, views), Engine(collection, torch.device("cpu"))


class Watching(Engine):
    """An engine that keeps the stages it has trained."""

    def train(self, stage):
        super().train(stage)
        self.stages = [*getattr(self, "stages", []), stage]


def run(collection, name="uno", folder=None, seed=0, **changes):
    """The outcome, and the stages."""
    checkpoints = Checkpoints(folder, Reporter(quiet=True)) if folder else None
    engine = Watching(collection, torch.device("cpu"), seed=seed, checkpoints=checkpoints)
    return run_method(chosen(name, **changes), collection, engine), engine.stages


def two_tasks(digits):
    """70 images that may be 5 or 6, and 80 that may be 7, 8 or 9."""
    tasks = novel_tasks(5, ("A", 2, np.arange(120, 190)), ("B", 3, np.arange(190, 270)))
    return dataclasses.replace(digits, tasks=tasks)


@torch.no_grad()
def seen(stage, batch, heads):
    """Cosines of the known categories [V, n, known] and of the novel ones [H, V, n, K], view by view."""
    whole, extra = batch.views.whole, batch.views.extra
    features = stage.train().encoder(whole.flatten(0, 1)), stage.encoder(extra.flatten(0, 1))
    known = F.normalize(torch.cat(features)) @ F.normalize(stage.known.weight).T
    novel = torch.cat([heads(each) for each in features], 1)
    n = len(batch.labels)
    return known.unflatten(0, (-1, n)).double(), novel.unflatten(1, (-1, n)).double()


def targets_of(cosines, batch):
    """The labels of one whole view, [n, known + K]: true ones, and balanced ones over the novel outputs."""
    n, categories = batch.n_known, cosines.shape[1]
    found = torch.zeros(len(batch.labels), 5 + categories, dtype=torch.float64)
    for i in range(n):
        found[i, batch.labels[i]] = 1
    found[n:, 5:] = torch.as_tensor(balancing.sinkhorn(cosines[n:], 0.05, 3))
    return found


def expected_loss(stage, batch, heads):
    """Cross-entropy of each view to what the other whole views were given, by head."""
    known, novel = seen(stage, batch, heads)
    each = []
    for cosines in novel:
        logits = torch.cat([known, cosines], -1) / 0.1
        targets = torch.stack([targets_of(cosines[view], batch) for view in range(2)])
        each.append(float(reference.swapped_prediction(logits, targets)))
    return each


# A step


@pytest.mark.parametrize("extra", [0, 2])
def test_every_view_predicts_the_labels_of_the_other_whole_views(digits, extra):
    """Labels of labelled images are the true ones; those of others are Sinkhorn's, of the view that is not asked."""
    stage, engine = begin(digits, views__extra=extra)
    twin = copy.deepcopy(stage)
    parts, batch = one_step(stage, engine)
    assert len(batch.views.extra) == extra
    cluster, over = (expected_loss(twin, batch, heads) for heads in (twin.heads, twin.over_heads))
    assert parts["cluster"].item() == pytest.approx(np.mean(cluster), rel=1e-3)
    assert parts["over"].item() == pytest.approx(np.mean(over), rel=1e-3)
    assert parts["loss"].item() == pytest.approx((np.mean(cluster) + np.mean(over)) / 2, rel=1e-3)
    assert stage.head_loss.tolist() == pytest.approx(cluster, rel=1e-3)


@pytest.mark.parametrize("each", [1, 2])
def test_targets_are_the_true_label_or_a_share_of_the_novel_outputs(digits, each):
    stage, engine = begin(digits)
    _, batch = one_step(stage, engine)
    n = batch.n_known
    features = stage.encoder(batch.views.whole.flatten(0, 1))
    known = stage.known(features).unflatten(0, (2, -1))
    heads = stage.heads if each == 1 else stage.over_heads
    _, targets = stage._predict(heads, each, known, features, features[:0], batch)
    assert targets.shape == (3, 2, 32, 5 + 5 * each)
    truth = F.one_hot(batch.labels[:n], 5 + 5 * each).float()
    assert all(torch.equal(targets[head, view, :n], truth) for head in range(3) for view in range(2))
    assert targets[:, :, n:, :5].eq(0).all()
    torch.testing.assert_close(targets[:, :, n:].sum(-1), torch.ones(3, 2, 32 - n))
    assert not targets.requires_grad


def test_over_clustering_heads_are_there_only_if_asked_for(digits):
    stage, engine = begin(digits)
    assert stage.over_heads.prototypes.shape == (3, 10, 8)
    stage, engine = begin(digits, heads__over=0)
    assert not hasattr(stage, "over_heads")
    parts, _ = one_step(stage, engine)
    assert "over" not in parts
    assert parts["loss"].item() == pytest.approx(parts["cluster"].item())


def test_iics_terms_draw_known_and_novel_apart_and_views_together(digits):
    stage, engine = begin(digits, "iic", inter=0.3, intra=0.2)
    twin = copy.deepcopy(stage)
    parts, batch = one_step(stage, engine)
    known, novel = seen(twin, batch, twin.heads)
    n, inter, intra = batch.n_known, [], []
    for cosines in novel:
        logits = torch.cat([known, cosines], -1) / 0.1
        inter += [divergence.inter_class(view[:n], view[n:]) for view in logits]
        intra.append(divergence.intra_class(logits[:, :n, :5]) + divergence.intra_class(logits[:, n:, 5:]))
    assert parts["inter"].item() == pytest.approx(float(sum(inter) / len(inter)), rel=1e-3)
    assert parts["intra"].item() == pytest.approx(float(sum(intra) / len(intra)), rel=1e-3)
    plain = (parts["cluster"] + parts["over"]).item() / 2
    with_terms = plain - 0.3 * parts["inter"].item() + 0.2 * parts["intra"].item()
    assert parts["loss"].item() == pytest.approx(with_terms, rel=1e-4)


def test_uno_has_none_of_iics_terms(digits):
    stage, engine = begin(digits)
    assert {"inter", "intra"}.isdisjoint(one_step(stage, engine)[0])


def test_extra_views_do_not_move_the_statistics_of_batch_norm(digits):
    stage, engine = begin(digits)
    _, batch = one_step(stage, engine)
    start = copy.deepcopy(stage)

    def statistics(**changes):
        twin = copy.deepcopy(start)
        twin.step(dataclasses.replace(batch, views=dataclasses.replace(batch.views, **changes)), torch.tensor(1))
        return {name: value for name, value in twin.named_buffers() if "running" in name}

    plain = statistics()
    assert {name.split(".")[0] for name in plain} == {"encoder", "heads", "over_heads"}
    other = statistics(extra=1 - batch.views.extra)
    assert all(torch.equal(value, other[name]) for name, value in plain.items())
    other = statistics(whole=1 - batch.views.whole)
    assert all(not torch.equal(value, other[name]) for name, value in plain.items())


@pytest.mark.parametrize("name", ["uno", "iic"])
def test_a_step_never_waits(digits, name):
    stage, engine = begin(two_tasks(digits), name)
    _, batch = one_step(stage, engine)
    step = torch.tensor(1)
    with NeverWaits():
        stage.step(batch, step)["loss"].backward()
        with torch.no_grad():
            stage.after_step(step)


def test_prototypes_have_unit_length_after_a_step(digits):
    _, (_, stage) = run(digits)
    for prototypes in (stage.known.weight, stage.heads.prototypes, stage.over_heads.prototypes):
        torch.testing.assert_close(prototypes.norm(dim=-1), torch.ones(prototypes.shape[:-1]))


# Which head answers


@pytest.mark.usefixtures("as_found")
def test_the_head_with_the_smallest_loss_of_the_last_epoch_answers(digits, tmp_path, monkeypatch):
    seen_losses, real = [], swapped.swapped_prediction

    def recording(logits, targets):
        each = real(logits, targets)
        seen_losses.append(each.detach())
        return each

    monkeypatch.setattr(swapped, "swapped_prediction", recording)
    outcome, (_, stage) = run(digits, heads__over=0, discovery__epochs=3)
    steps = stage.sampler.steps
    assert len(seen_losses) == 3 * steps
    last = torch.stack(seen_losses[-steps:]).sum(0)
    torch.testing.assert_close(stage.head_loss, last)

    images = digits.test.images
    with torch.no_grad():
        features = stage.eval().encoder(images)
        by_head = [torch.cat([stage.known(features), cosines / 0.1], 1) for cosines in stage.heads(features)]
        logits = outcome.model.eval()(images)
    best = int(last.argmin())
    torch.testing.assert_close(logits, by_head[best], rtol=1e-4, atol=1e-4)
    assert all(not torch.allclose(logits, by_head[other], atol=0.1) for other in {0, 1, 2} - {best})

    outcome.model.save(tmp_path / "model")
    saved = load_model(tmp_path / "model")
    with torch.no_grad():
        assert torch.equal(saved(images), logits)
        confidence, found = saved(digits.train.images[120:])[:, 5:].softmax(1).max(1)
    assert (5 + found).tolist() == outcome.assignments.tolist()
    torch.testing.assert_close(confidence, torch.from_numpy(outcome.confidence))


# Tasks


def test_labels_of_a_tasks_images_are_of_its_own_categories(digits):
    stage, engine = begin(two_tasks(digits))
    _, batch = one_step(stage, engine)
    n = batch.n_known
    features = stage.encoder(batch.views.whole.flatten(0, 1))
    known = stage.known(features).unflatten(0, (2, -1))
    for heads, each in ((stage.heads, 1), (stage.over_heads, 2)):
        _, targets = stage._predict(heads, each, known, features, features[:0], batch)
        of_a = batch.index[n:] < 190
        assert 0 < of_a.sum() < len(of_a)
        labels = targets[:, :, n:]
        assert labels[:, :, of_a][..., 5 + 2 * each :].eq(0).all()
        assert labels[:, :, ~of_a][..., : 5 + 2 * each].eq(0).all()
        torch.testing.assert_close(labels.sum(-1), torch.ones(3, 2, 32 - n))


@pytest.mark.parametrize("name", ["uno", "iic"])
def test_every_task_keeps_to_its_own_categories(digits, name):
    outcome, _ = run(two_tasks(digits), name)
    assert set(outcome.assignments[:70]) <= {5, 6}
    assert set(outcome.assignments[70:]) <= {7, 8, 9}
    assert outcome.model.method == name


# Resuming


@pytest.mark.parametrize("stage", [Supervised, SwappedPrediction], ids=lambda stage: stage.__name__)
@pytest.mark.parametrize("name", ["uno", "iic"])
def test_a_run_stopped_in_either_stage_resumes_bit_for_bit(name, stage, digits, tmp_path, monkeypatch):
    assert resumes(lambda folder: run(digits, name, folder)[0], stage, 4, monkeypatch, tmp_path)


# What it is good for

LONGER = {
    "supervised__epochs": 10,
    "discovery__epochs": 20,
    "discovery__batch": 64,
    "heads__hidden": 64,
    "heads__bottleneck": 32,
}


@pytest.mark.parametrize("seed", [0, 1])
def test_swapped_prediction_finds_the_novel_categories(seed, digits):
    """Against heads that do not learn, on the same supervised features."""
    truth = read_digits(0).answers.unlabelled[:150]

    def accuracy(**changes):
        outcome, _ = run(digits, seed=seed, **LONGER | changes)
        return matching.accuracy(outcome.assignments.tolist(), truth)

    assert accuracy() > accuracy(discovery__lr=0.0, discovery__final_lr=0.0, discovery__epochs=1) + 0.05


@pytest.mark.parametrize("seed", [0, 1])
def test_the_inter_class_term_drives_known_and_novel_images_apart(seed, digits):
    def apart(inter):
        outcome, _ = run(digits, "iic", seed=seed, inter=inter, **LONGER | {"discovery__epochs": 10})
        with torch.no_grad():
            logits = outcome.model.eval()(digits.train.images)
        return float(inter_class(logits[:120], logits[120:]))

    assert apart(0.2) > 1.3 * apart(0.0)


@pytest.mark.usefixtures("as_found")
def test_beside_the_answer_stand_the_votes_of_all_heads_as_they_would_be_saved(digits):
    outcome, (_, stage) = run(digits)
    features, n_known = outcome.features[digits.n_labelled :], len(digits.classes)
    heads = [stage.heads.answer(number, stage.known) for number in range(3)]
    with torch.no_grad():
        each = torch.stack([head(features)[:, n_known:].softmax(1) for head in heads])
    lead = int(stage.head_loss.argmin())
    assert np.array_equal(outcome.assignments, n_known + each[lead].argmax(1).numpy())
    assert np.array_equal(outcome.earlier["votes"], n_known + votes(each, lead).argmax(1).numpy())
