"""AutoNovel: what a step learns from, what incremental learning adds, and that its loss finds categories."""

import copy
import dataclasses
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from methods_tiny import NeverWaits, one_step, resumes
from reference import consistency as reference_consistency
from reference import matching
from reference import pairwise as reference_pairwise
from reference import ranking as reference_ranking

from newfound.data.collection import novel_tasks
from newfound.data.digits import read_digits
from newfound.engine.checkpoint import Checkpoints
from newfound.engine.loop import Engine
from newfound.errors import UserError
from newfound.methods.autonovel import AutoNovel, Discovery, widen
from newfound.methods.base import run_method
from newfound.methods.parts.encoder import make_encoder
from newfound.methods.parts.pretraining import Episodes
from newfound.methods.parts.selfsupervised import SelfSupervised
from newfound.methods.parts.supervised import Supervised
from newfound.nets.heads import LinearClassifier
from newfound.plan.recipe import resolve_settings
from newfound.progress import Reporter

QUICK = {"selfsupervised.epochs": 2, "supervised.epochs": 2, "discovery.epochs": 2, "discovery.batch": 32}


def chosen(**changes):
    changes = QUICK | {name.replace("__", "."): value for name, value in changes.items()}
    return resolve_settings("autonovel", "autonovel-digits", changes)


def run(collection, folder=None, **changes):
    checkpoints = Checkpoints(folder, Reporter(quiet=True)) if folder else None
    engine = Engine(collection, torch.device("cpu"), checkpoints=checkpoints)
    return run_method(chosen(**changes), collection, engine)


def begin(collection, **changes):
    """A stage of discovery whose classifier over known categories has biases, and its engine."""
    torch.manual_seed(0)
    settings = chosen(**changes)
    encoder = make_encoder(settings.network, collection, None)
    known = LinearClassifier(encoder.width, len(collection.classes))
    return Discovery(encoder, known, collection, settings), Engine(collection, torch.device("cpu"))


@pytest.fixture
def two_tasks(digits):
    """The digits, of which some may be categories 5 and 6, and the others 7, 8 and 9."""
    tasks = novel_tasks(5, ("A", 2, np.arange(120, 190)), ("B", 3, np.arange(190, 270)))
    return dataclasses.replace(digits, tasks=tasks)


@torch.no_grad()
def said(stage, batch):
    """Features [2, n, D] of both views, and what the classifiers say of them: logits [2, n, known], [2, n, K]."""
    features = stage.train().encoder(batch.views.whole.flatten(0, 1)).double()
    heads = copy.deepcopy(stage.known).double(), copy.deepcopy(stage.novel).double()
    return [value.unflatten(0, (2, -1)) for value in (features, *(head(features) for head in heads))]


# What a step learns from


def test_the_loss_is_the_sum_of_its_terms_by_their_definitions(digits):
    stage, engine = begin(digits, ranks=1, pairwise=0.7, consistency=3.0, rising=1.0)
    twin = copy.deepcopy(stage)
    t = stage.sampler.steps  # the second of two epochs: the weight of consistency is half way up
    parts, batch = one_step(stage, engine, t)
    features, known, novel = said(twin, batch)
    first = batch.n_known
    supervised = F.cross_entropy(known[0, :first], batch.labels[:first])
    same_category = reference_ranking.same_top_ranks(features[0, first:], 1)
    p, q = novel.softmax(2)
    pairwise = reference_pairwise.likelihood(p[first:], q[first:], same_category)
    agreement = sum(reference_consistency.consistency(*two.softmax(2)) for two in (known, novel))
    expected = {"supervised": supervised, "pairwise": pairwise, "consistency": agreement}
    expected["loss"] = supervised + 0.7 * pairwise + 3 * math.exp(-5 / 4) * agreement
    for name, value in expected.items():
        assert parts[name].item() == pytest.approx(float(value), rel=1e-3), name
    told = float(torch.tensor(same_category).float().mean())
    assert parts["pairs_alike"].item() == pytest.approx(told)
    assert 1 / len(same_category) < told < 1, "some pairs of different images are alike, and not all"


def test_pairs_teach_the_classifier_over_novel_categories_and_the_encoder_alone(digits):
    stage, engine = begin(digits)
    parts, _ = one_step(stage, engine)
    learns = [*stage.novel.parameters(), *stage.encoder.parameters()]
    slopes = torch.autograd.grad(parts["pairwise"], learns, retain_graph=True)
    assert all(slope.abs().sum() > 0 for slope in slopes)
    untouched = torch.autograd.grad(parts["pairwise"], list(stage.known.parameters()), allow_unused=True)
    assert untouched == (None, None)


def test_blocks_learned_from_turns_stay_and_their_statistics_move(digits):
    settings = chosen(tuned_blocks=1)
    seen = {}

    class Watching(Engine):
        def train(self, stage):
            super().train(stage)
            seen[stage.name] = copy.deepcopy(stage.encoder.net.state_dict())

    run_method(settings, digits, Watching(digits, torch.device("cpu")))
    assert list(seen) == ["selfsupervised", "supervised", "discovery"]
    for before, after in (("selfsupervised", "supervised"), ("supervised", "discovery")):
        for name, value in seen[before].items():
            stays = name.startswith(("blocks.0", "blocks.1")) and "running" not in name and "tracked" not in name
            assert torch.equal(value, seen[after][name]) == stays, name


def test_without_self_supervision_the_whole_network_learns_from_labels(digits):
    stages = []

    class Watching(Engine):
        def train(self, stage):
            stages.append((stage.name, all(p.requires_grad for p in stage.encoder.parameters())))
            super().train(stage)

    run_method(chosen(self_supervision=False), digits, Watching(digits, torch.device("cpu")))
    assert stages == [("supervised", True), ("discovery", True)]


@pytest.mark.parametrize("incremental", [False, True])
def test_a_step_never_waits(two_tasks, incremental):
    stage, engine = begin(two_tasks, incremental=incremental)
    _, batch = one_step(stage, engine)
    t = torch.tensor(1)
    with NeverWaits():
        stage.step(batch, t)["loss"].backward()
        stage.after_step(t)


# Incremental learning


def test_a_widened_classifier_keeps_its_rows_and_begins_below_them():
    known = LinearClassifier(4, 3)
    wide = widen(known, 2)
    assert torch.equal(wide.weight[:3], known.weight)
    assert torch.equal(wide.bias[:3], known.bias)
    assert torch.equal(wide.bias[3:], (known.bias.min() - 1).expand(2))
    assert (wide.weight[3:] != 0).all()


def test_the_widened_classifier_learns_what_the_one_over_novel_categories_says(digits):
    stage, engine = begin(digits, incremental=True, incremental_weight=0.3, consistency=0, pairwise=0, rising=1.0)
    twin = copy.deepcopy(stage)
    parts, batch = one_step(stage, engine, stage.sampler.steps)
    _, known, novel = said(twin, batch)
    first = batch.n_known
    term = F.cross_entropy(known[0, first:], 5 + novel[0, first:].argmax(1))
    assert parts["incremental"].item() == pytest.approx(float(term), rel=1e-4)
    expected = F.cross_entropy(known[0, :first], batch.labels[:first]) + 0.3 * math.exp(-5 / 4) * term
    assert parts["loss"].item() == pytest.approx(float(expected), rel=1e-4)
    assert torch.autograd.grad(parts["incremental"], list(stage.novel.parameters()), allow_unused=True) == (None, None)


@pytest.mark.usefixtures("as_found")
def test_incremental_learning_answers_with_the_widened_classifier_and_assigns_with_the_novel_one(digits, monkeypatch):
    stages = []
    real = Discovery.__init__
    monkeypatch.setattr(Discovery, "__init__", lambda self, *given: (real(self, *given), stages.append(self))[0])
    outcome = run(digits, incremental=True)
    (stage,) = stages
    features = outcome.features[120:]
    assert torch.equal(outcome.model.logits(features), stage.known(features))
    assert outcome.assignments.tolist() == (5 + stage.novel(features).argmax(1)).tolist()
    expected = stage.novel(features).softmax(1).amax(1)
    np.testing.assert_allclose(outcome.confidence, expected.detach().numpy(), rtol=1e-4)


@pytest.mark.usefixtures("as_found")
def test_without_incremental_learning_the_two_classifiers_stand_side_by_side(digits, monkeypatch):
    stages = []
    real = Discovery.__init__
    monkeypatch.setattr(Discovery, "__init__", lambda self, *given: (real(self, *given), stages.append(self))[0])
    outcome = run(digits)
    (stage,) = stages
    features = outcome.features
    logits = outcome.model.logits(features)
    torch.testing.assert_close(logits[:, :5], stage.known(features))
    shift = logits[:, 5:] - stage.novel(features)  # one number for all, by which the two are levelled
    torch.testing.assert_close(shift, shift[0, 0].expand_as(shift), rtol=1e-3, atol=1e-4)
    assert outcome.assignments.tolist() == (5 + stage.novel(features[120:]).argmax(1)).tolist()


# Several tasks


@pytest.mark.parametrize("incremental", [False, True])
def test_images_of_each_task_have_its_own_categories(two_tasks, incremental):
    outcome = run(two_tasks, incremental=incremental)
    assert set(outcome.assignments[:70]) <= {5, 6}
    assert set(outcome.assignments[70:]) <= {7, 8, 9}
    assert len(set(outcome.assignments)) > 2


@pytest.mark.parametrize("incremental", [False, True])
def test_a_batch_teaches_the_novel_categories_of_one_task(two_tasks, incremental):
    stage, engine = begin(two_tasks, incremental=incremental)
    tasks = set()
    for t in range(8):
        parts, batch = one_step(stage, engine, t % 6)
        of_a = batch.index[batch.n_known :] < 190
        assert of_a.all() or not of_a.any()
        own = slice(0, 2) if of_a.all() else slice(2, 5)
        (slope,) = torch.autograd.grad(parts["loss"], [stage.novel.weight], retain_graph=True)
        taught = torch.zeros(5, dtype=torch.bool)
        taught[own] = True
        assert torch.equal(slope.abs().sum(1) > 0, taught)
        if incremental:
            (slope,) = torch.autograd.grad(parts["loss"], [stage.known.weight])
            assert torch.equal(slope.abs().sum(1) > 0, torch.cat([torch.ones(5, dtype=torch.bool), taught]))
        tasks.add(own.start)
    assert tasks == {0, 2}


# Stopping and going on


@pytest.mark.parametrize(
    ("stopped", "changes"),
    [
        (SelfSupervised, {}),
        (Supervised, {}),
        (Discovery, {}),
        (Discovery, {"incremental": True}),
        (Episodes, {"supervised_loss": "prototypical", "self_supervision": False}),
    ],
    ids=["selfsupervised", "supervised", "discovery", "incremental", "episodes"],
)
def test_a_stopped_run_resumes_bit_for_bit(stopped, changes, digits, tmp_path, monkeypatch):
    changes = {"selfsupervised__batch": 32, "supervised__batch": 32, "episodes__classes": 3, **changes}
    assert resumes(lambda folder: run(digits, folder, **changes), stopped, 4, monkeypatch, tmp_path)


# What is chosen and checked before a run


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"tuned_blocks": 4}, "tuned_blocks is 4, but the network has 3 blocks"),
        ({"ranks": 128}, "ranks is 128, but the network has 128 features"),
        ({"network": "vgg6"}, "the network vgg6 needs images of at least 16 x 16"),
    ],
)
def test_what_does_not_fit_the_network_stops_before_a_run(changes, complaint):
    with pytest.raises(UserError, match=complaint):
        AutoNovel(chosen(**changes)).check((1, 8, 8))
    AutoNovel(chosen()).check((1, 8, 8))
    AutoNovel(chosen(tuned_blocks=4, self_supervision=False)).check((1, 8, 8))


# The loss matters


def learn(digits, seed, **changes):
    """The outcome of a run of seconds on 120 labelled and 150 unlabelled digits."""
    quick = {"selfsupervised.epochs": 10, "supervised.epochs": 10, "discovery.epochs": 30, "discovery.batch": 64}
    settings = resolve_settings("autonovel", "autonovel-digits", quick | changes)
    return run_method(settings, digits, Engine(digits, torch.device("cpu"), seed=seed))


@pytest.mark.parametrize("seed", [0, 1])
def test_pairs_by_ranking_statistics_find_categories(digits, seed):
    truth = read_digits(0).answers.unlabelled[:150]
    learned, without = (
        matching.accuracy(learn(digits, seed, pairwise=weight).assignments.tolist(), truth) for weight in (1.0, 0.0)
    )
    assert learned > without + 0.05


@pytest.mark.parametrize("seed", [0, 1])
def test_incremental_learning_tells_the_unlabelled_images_from_known_categories(digits, seed):
    def told(weight):
        outcome = learn(digits, seed, incremental=True, incremental_weight=weight)
        return float((outcome.model.logits(outcome.features[120:]).argmax(1) >= 5).float().mean())

    assert told(0.05) > told(0.0) + 0.05
