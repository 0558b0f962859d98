"""Deep transfer clustering: its targets, its variants, its tasks, and what its loss is for."""

import copy
import dataclasses

import numpy as np
import pytest
import torch
from methods_tiny import NeverWaits, one_step, resumes
from reference import matching
from reference import studentt as reference
from reference.consistency import consistency

from newfound.data.collection import novel_tasks
from newfound.data.digits import read_digits
from newfound.engine.checkpoint import Checkpoints
from newfound.engine.loop import Engine
from newfound.engine.schedule import ramp_up
from newfound.methods.base import run_method
from newfound.methods.dtc import DTC, Clustered, ClusterHead, ClusterViews, Discovery, read_assignments, reduce
from newfound.methods.parts.encoder import make_encoder
from newfound.methods.parts.joint import Joint
from newfound.methods.parts.pretraining import Episodes
from newfound.methods.parts.selfsupervised import SelfSupervised
from newfound.methods.parts.supervised import Supervised
from newfound.methods.parts.tasks import allowed_categories
from newfound.plan.recipe import resolve_settings
from newfound.progress import Reporter
from newfound.views.symbolic import symbolic_views

VARIANTS = ("baseline", "pi", "te", "tep")
STAGES = ("selfsupervised", "supervised", "warmup", "discovery", "joint")
QUICK = {f"{stage}.epochs": 2 for stage in STAGES} | {f"{stage}.batch": 32 for stage in STAGES}
CPU = torch.device("cpu")


def chosen(**changes):
    return resolve_settings("dtc", "dtc-digits", QUICK | {k.replace("__", "."): v for k, v in changes.items()})


def run(collection, folder=None, **changes):
    checkpoints = Checkpoints(folder, Reporter(quiet=True)) if folder else None
    return run_method(chosen(**changes), collection, Engine(collection, CPU, checkpoints=checkpoints))


def begin(collection, kind=Discovery, **changes):
    """A stage of the kind with random centres, block by block, and random targets."""
    torch.manual_seed(0)
    settings, allowed = chosen(**changes), allowed_categories(collection)[1]
    encoder = make_encoder(settings.network, collection, None)
    centres = torch.randn(collection.n_novel, collection.n_novel)
    same = (allowed.float().T @ allowed.float()) > 0  # categories of one task
    head = ClusterHead(encoder.width, settings.hidden, centres * same)
    targets = torch.rand(allowed.shape) * allowed
    stage = kind(encoder, head, collection, settings, targets / targets.sum(1, keepdim=True))
    return stage, Engine(collection, CPU)


@pytest.fixture
def two_tasks(digits):
    tasks = novel_tasks(5, ("A", 2, np.arange(120, 190)), ("B", 3, np.arange(190, 270)))
    return dataclasses.replace(digits, tasks=tasks)


def assigned_by_hand(stage, batch):
    """Assignments [V, n, K] of a batch by the plain reference."""
    with torch.no_grad():
        vectors = stage.head.project(stage.encoder(batch.views.flatten(0, 1))).double()
        centres = stage.head.centres.double()
    return reference.assignment(vectors, centres).unflatten(0, (len(batch.views), -1))


# Views


@pytest.mark.parametrize("pair", [False, True])
@pytest.mark.parametrize("plain", [False, True])
def test_the_first_view_is_the_image_itself_where_that_is_wanted_and_the_others_are_random(digits, plain, pair):
    random, images = symbolic_views(8, extra=0, appearance=False, fill=0), digits.train.images[:20]
    views = ClusterViews(random, plain, pair)
    parameters = views.draw(torch.Generator().manual_seed(0), 20, torch.tensor(0))
    made, whole = views.apply(images, parameters), random.apply(images, parameters).whole
    assert len(made) == 1 + pair
    torch.testing.assert_close(made[0], images / 255 if plain else whole[0])
    if pair:
        torch.testing.assert_close(made[1], whole[1])
        assert not torch.allclose(made[0], made[1], atol=0.1)


# Where it starts


def test_each_task_is_reduced_by_itself_to_as_many_dimensions_as_it_has_categories(two_tasks):
    features = torch.randn(150, 16) * torch.arange(1, 17)
    reduced = reduce(features, two_tasks)
    assert (reduced[:70, 2:] == 0).all()
    assert (reduced[70:, :2] == 0).all()
    for rows, own in ((slice(0, 70), slice(0, 2)), (slice(70, 150), slice(2, 5))):
        centred = features[rows] - features[rows].mean(0)
        largest = torch.linalg.svdvals(centred)[: own.stop - own.start]
        torch.testing.assert_close(reduced[rows, own].norm(dim=0), largest, rtol=1e-4, atol=1e-4)


def test_the_warm_up_teaches_a_fresh_head_the_clusters(digits):
    outcome = run(digits, supervised__epochs=10, warmup__epochs=30, discovery__epochs=1, discovery__lr=0)
    agreement = matching.accuracy(outcome.earlier["warmup"].tolist(), outcome.earlier["clusters"].tolist())
    untrained = run(digits, supervised__epochs=10, warmup__epochs=1, warmup__lr=0, discovery__epochs=1, discovery__lr=0)
    without = matching.accuracy(untrained.earlier["warmup"].tolist(), untrained.earlier["clusters"].tolist())
    assert agreement > 0.8
    assert without < 0.6


# A step


def test_the_warm_up_learns_its_targets_from_one_view(digits):
    stage, engine = begin(digits, Clustered)
    parts, batch = one_step(stage, engine)
    assert len(batch.views) == 1
    assert (batch.index >= 120).all(), "unlabelled images alone"
    expected = reference.divergence(stage.targets[batch.index - 120].double(), assigned_by_hand(stage, batch)[0])
    assert parts["loss"].item() == pytest.approx(float(expected), rel=1e-4)


@pytest.mark.parametrize("variant", VARIANTS)
def test_discovery_adds_the_variants_own_term(digits, variant):
    stage, engine = begin(digits, variant=variant, sharpening=0.5, consistency=8.0, rising=0.5, discovery__epochs=4)
    if stage.ensemble is not None:
        stage.ensemble.latest.copy_(torch.rand(150, 5))
        stage.ensemble.update()
    t = stage.sampler.steps  # the second epoch
    parts, batch = one_step(stage, engine, t)
    rows, q = batch.index - 120, assigned_by_hand(stage, batch)
    divergence = reference.divergence(stage.targets[rows].double(), q[0])
    assert parts["divergence"].item() == pytest.approx(float(divergence), rel=1e-4)
    weight = ramp_up(8.0, 2, 4, 1)[1]
    assert 0.1 < weight < 8
    if variant in ("pi", "te"):
        other = q[1] if variant == "pi" else stage.ensemble.average[rows].double() / 0.4
        term = consistency(q[0], other)
        assert parts["consistency"].item() == pytest.approx(float(term), rel=1e-4)
        expected = 0.5 * divergence + weight * term
    else:
        expected = 0.5 * divergence
    assert parts["loss"].item() == pytest.approx(float(expected), rel=1e-4)
    assert ("consistency" in parts) == (variant in ("pi", "te"))
    if variant == "te":
        torch.testing.assert_close(stage.ensemble.latest[rows].double(), q[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("hidden", [0, 16])
def test_a_step_teaches_encoder_head_and_centres_and_never_waits(digits, variant, hidden):
    stage, engine = begin(digits, variant=variant, hidden=hidden)
    stage.before_epoch(0, engine)
    _, batch = one_step(stage, engine)
    step = torch.tensor(1)
    with NeverWaits():
        stage.step(batch, step)["loss"].backward()
        stage.after_step(step)
    of_features = [*stage.encoder.net.parameters(), stage.head.centres, stage.head.project[-1].weight]
    assert all(parameter.grad.abs().sum() > 0 for parameter in of_features)


# Targets


@pytest.mark.parametrize("variant", VARIANTS)
def test_targets_are_made_anew_every_few_epochs_from_images_as_they_are(digits, variant):
    stage, engine = begin(digits, variant=variant, interval=3)
    history = []
    for epoch in range(7):
        before = stage.targets.clone()
        q = read_assignments(stage.encoder, stage.head, stage.allowed, engine)
        if epoch == 0 or variant == "tep":
            history.append(q)
        stage.before_epoch(epoch, engine)
        if epoch % 3:
            assert torch.equal(stage.targets, before)
        else:
            source = reference.ensemble([h.double() for h in history], 0.6) if variant == "tep" else q.double()
            torch.testing.assert_close(stage.targets.double(), reference.sharpen(source), rtol=1e-4, atol=1e-5)
        if stage.ensemble is not None:
            expected = reference.ensemble([h.double() for h in history], 0.6)
            torch.testing.assert_close(stage.ensemble.of(slice(None)).double(), expected, rtol=1e-4, atol=1e-5)
        if variant == "te":
            said = torch.rand(150, 5).softmax(1)
            stage.ensemble.record(torch.arange(150), said)
            history.append(said)
        with torch.no_grad():
            stage.head.centres += 0.1 * torch.randn_like(stage.head.centres)


# Tasks


@pytest.mark.parametrize("variant", VARIANTS)
def test_images_of_a_task_get_its_own_categories(two_tasks, variant):
    outcome = run(two_tasks, variant=variant)
    for found in (outcome.assignments, *outcome.earlier.values()):
        assert set(found[:70]) <= {5, 6}
        assert set(found[70:]) <= {7, 8, 9}
    assert {5, 6, 7, 8, 9} == set(outcome.earlier["clusters"])


def test_each_image_learns_as_it_would_in_its_task_alone(two_tasks):
    stage, engine = begin(two_tasks, sharpening=1.0, consistency=3.0, rising=0)
    parts, batch = one_step(stage, engine)
    rows = batch.index - 120
    with torch.no_grad():
        vectors = stage.head.project(stage.encoder(batch.views.flatten(0, 1))).double().unflatten(0, (2, -1))
        centres = stage.head.centres.double()
    expected = 0
    for i, row in enumerate(rows.tolist()):
        own = slice(0, 2) if row < 70 else slice(2, 5)
        one, other = reference.assignment(vectors[:, i, own], centres[own, own])
        expected += reference.divergence(stage.targets[row, own].double()[None], one[None])
        expected += 3 * consistency(one[None], other[None])
    assert parts["loss"].item() == pytest.approx(float(expected) / len(rows), rel=1e-4)
    assert 0 < (rows < 70).sum() < len(rows), "of both tasks"


@pytest.mark.parametrize(("own", "other", "first"), [(slice(0, 2), slice(2, 5), 0), (slice(2, 5), slice(0, 2), 70)])
def test_images_of_a_task_leave_the_others_head_and_centres_alone(two_tasks, own, other, first):
    stage, engine = begin(two_tasks)
    _, batch = one_step(stage, engine)
    rows = torch.arange(first, first + len(batch.index))
    stage.step(dataclasses.replace(batch, index=120 + rows), torch.tensor(0))["loss"].backward()
    slopes, weights = stage.head.centres.grad, stage.head.project[-1].weight.grad
    assert slopes[own, own].abs().min() > 0
    assert (slopes[other] == 0).all()
    assert (slopes[:, other] == 0).all(), "centres stay in the dimensions of their task"
    assert weights[own].abs().sum() > 0
    assert (weights[other] == 0).all()


# Resuming


@pytest.mark.parametrize(
    ("stage", "changes"),
    [
        (SelfSupervised, {"self_supervision": True}),
        (Supervised, {}),
        (Episodes, {"supervised_loss": "prototypical", "episodes__classes": 4}),
        (Clustered, {"hidden": 16}),
        *((Discovery, {"variant": variant}) for variant in VARIANTS),
        (Joint, {}),
    ],
    ids=lambda given: getattr(given, "__name__", None) or str(given.get("variant", "")),
)
def test_a_stopped_run_resumes_bit_for_bit(digits, tmp_path, monkeypatch, stage, changes):
    changes = {"supervised__epochs": 3, **changes}
    assert resumes(lambda folder: run(digits, folder, **changes), stage, 5, monkeypatch, tmp_path)


# Self-supervision


def test_after_self_supervision_the_last_blocks_alone_learn(digits, monkeypatch):
    seen = []
    real = Engine.train

    def learned(before, after):
        pairs = zip(before.parameters(), after.parameters(), strict=True)
        return any(not torch.equal(old, new) for old, new in pairs)

    def watched(self, stage):
        before = copy.deepcopy(stage.encoder.net)
        real(self, stage)
        seen.append((stage.name, list(map(learned, before.blocks, stage.encoder.net.blocks))))

    monkeypatch.setattr(Engine, "train", watched)
    run(digits, self_supervision=True, tuned_blocks=1)
    assert seen == [("selfsupervised", [True, True, True]), *((name, [False, False, True]) for name in STAGES[1:])]


# What suits some images, and what is checked


def test_the_classifier_over_old_and_new_follows_discovery(digits):
    assert DTC(chosen(joint__epochs=7)).later_epochs(digits) == 7 * 270 / 150, "its epochs have labelled images too"
    outcome = run(digits, supervised__epochs=10, joint__epochs=10)
    predicted = outcome.model.eval()(digits.train.images).argmax(1).numpy()
    assert (predicted[:120] == digits.labels[:120]).mean() > 0.9
    assert (predicted[120:] == outcome.assignments).mean() > 0.7
    assert outcome.model.method == "dtc"


# What the loss is for


@pytest.mark.parametrize("seed", [0, 1])
def test_surer_targets_make_better_categories_than_the_clusters_and_than_consistency_alone(digits, seed):
    truth = read_digits(0).answers.unlabelled[:150]
    longer = {"supervised.epochs": 20, "warmup.epochs": 20, "discovery.epochs": 40, "joint.epochs": 1}

    def accuracies(**changes):
        settings = resolve_settings("dtc", "dtc-digits", QUICK | longer | changes)
        outcome = run_method(settings, digits, Engine(digits, CPU, seed=seed))
        found = outcome.earlier | {"discovery": outcome.assignments}
        return {name: matching.accuracy(some.tolist(), truth) for name, some in found.items()}

    learned = accuracies()
    assert learned["discovery"] > accuracies(sharpening=0)["discovery"] + 0.05
    assert learned["discovery"] > learned["warmup"] + 0.05
    assert learned["discovery"] > learned["clusters"] + 0.05
