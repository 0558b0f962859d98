"""KCL and MCL: what the similarity network learns, and what the clustering network makes of it."""

import copy
import dataclasses

import numpy as np
import pytest
import torch
from methods_tiny import NeverWaits, one_step, resumes
from reference import matching
from reference import pairwise as reference
from torch import nn

from newfound.data.collection import novel_tasks
from newfound.data.digits import read_digits
from newfound.engine.checkpoint import Checkpoints
from newfound.engine.loop import Engine
from newfound.engine.stage import Batch
from newfound.errors import UserError
from newfound.methods import get_method
from newfound.methods.base import run_method
from newfound.methods.parts.constrained import Constrained, Similarity
from newfound.methods.parts.encoder import make_encoder
from newfound.methods.parts.joint import Joint
from newfound.methods.parts.selfsupervised import SelfSupervised
from newfound.plan.recipe import resolve_settings
from newfound.progress import Reporter

METHODS = ("kcl", "mcl")
CPU = torch.device("cpu")


def chosen(name="kcl", **changes):
    quick = {"similarity.batch": 40, "discovery.batch": 32, "joint.batch": 32, "selfsupervised.batch": 64}
    quick |= {f"{plan}.epochs": 2 for plan in ("similarity", "discovery", "joint", "selfsupervised")}
    return resolve_settings(name, f"{name}-digits", quick | {k.replace("__", "."): v for k, v in changes.items()})


def begin(collection, name="kcl", **changes):
    """Both stages before their first step, and an engine."""
    torch.manual_seed(0)
    settings = chosen(name, **changes)
    encoder = make_encoder(settings.network, collection, None)
    similarity = Similarity(copy.deepcopy(encoder), collection, settings)
    guide, loss = copy.deepcopy(similarity.network), get_method(name).pair_loss
    return similarity, Constrained(encoder, guide, loss, collection, settings), Engine(collection, CPU)


def in_two_tasks(collection):
    tasks = novel_tasks(5, ("A", 2, np.arange(120, 190)), ("B", 3, np.arange(190, 270)))
    return dataclasses.replace(collection, tasks=tasks)


# The similarity network


def test_a_batch_of_pairs_has_as_many_images_of_each_category(digits):
    for categories, each in ((2, 20), (4, 10), (20, 8)):
        similarity, _, _ = begin(digits, categories=categories)
        for batch in similarity.sampler.epoch(torch.Generator()):
            counts = np.unique(digits.labels[batch], return_counts=True)[1]
            assert counts.tolist() == [each] * min(categories, 5)


def test_the_similarity_network_is_asked_of_all_pairs_whether_their_labels_are_equal(digits):
    similarity, _, engine = begin(digits)
    twin = copy.deepcopy(similarity).train()
    parts, batch = one_step(similarity, engine)
    with torch.no_grad():
        logs = twin.network(batch.views).log_softmax(-1)
    labels = batch.labels.tolist()
    places = [(i, j, int(one == other)) for i, one in enumerate(labels) for j, other in enumerate(labels)]
    assert parts["loss"].item() == pytest.approx(-sum(float(logs[place]) for place in places) / 1600, rel=1e-4)
    right = [int(logs[i, j].argmax()) == same for i, j, same in places]
    assert parts["accuracy"].item() == pytest.approx(sum(right) / 1600)
    found = [told for told, (_, _, same) in zip(right, places, strict=True) if same]
    assert parts["found"].item() == pytest.approx(sum(found) / len(found))


def test_the_similarity_network_learns_to_tell_pairs_of_known_categories_it_has_never_seen(digits):
    similarity, _, engine = begin(digits, similarity__epochs=30)
    engine.train(similarity)
    answers = np.array(read_digits(0).answers.test)
    known = np.flatnonzero(np.isin(answers, digits.classes))[:80]
    with torch.no_grad():
        told = similarity.train().network(digits.test.images[known]).argmax(-1).bool().numpy()
    same = answers[known][:, None] == answers[known]
    assert told[same].mean() > 0.7
    assert told[~same].mean() < 0.1


# The clustering network


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("tasks", [1, 2])
def test_the_loss_is_the_published_one_over_all_pairs_and_self_pairs(digits, name, tasks):
    collection = digits if tasks == 1 else in_two_tasks(digits)
    _, stage, engine = begin(collection, name, pairwise=0.5)
    twin = copy.deepcopy(stage).train()
    parts, batch = one_step(stage, engine)
    own = {1: range(5), 2: range(2) if int(batch.index[0]) < 190 else range(2, 5)}[tasks]
    with torch.no_grad():
        same = twin.similarity(batch.views)
        same = (same[..., 1] > same[..., 0]).tolist()
        probabilities = twin.head(twin.encoder(batch.views))[:, list(own)].double().softmax(1)
    if name == "kcl":
        expected = reference.divergence(probabilities, same, 2.0)
    else:
        expected = reference.likelihood(probabilities, probabilities, same)
    assert 0 < sum(map(sum, same)) < 32 * 32, "some pairs are told to be the same, and others not"
    assert parts["pairwise"].item() == pytest.approx(float(expected), rel=1e-4)
    assert parts["loss"].item() == pytest.approx(0.5 * float(expected), rel=1e-4)
    assert parts["pairs_alike"].item() == pytest.approx(sum(map(sum, same)) / 1024)


@pytest.mark.parametrize("name", METHODS)
def test_the_similarity_network_does_not_learn_in_the_discovery_but_its_statistics_follow(digits, name):
    _, stage, engine = begin(digits, name)
    before, weights = copy.deepcopy(stage.similarity), copy.deepcopy(stage.encoder)
    engine.train(stage)
    for old, new in zip(before.parameters(), stage.similarity.parameters(), strict=True):
        assert torch.equal(old, new)
    moved = [
        not torch.equal(old, new)
        for (name, old), (_, new) in zip(before.named_buffers(), stage.similarity.named_buffers(), strict=True)
        if name.endswith("running_mean")
    ]
    assert moved
    assert all(moved)
    changed = zip(weights.net.parameters(), stage.encoder.net.parameters(), strict=True)
    assert all(not torch.equal(old, new) for old, new in changed)


def test_pairs_are_told_by_the_statistics_of_their_own_batch(digits):
    _, stage, engine = begin(digits)
    expected, batch = one_step(copy.deepcopy(stage), engine)
    for name, value in stage.similarity.named_buffers():
        if name.endswith("running_mean"):
            value += 1000
    found = stage.train().step(batch, torch.tensor(0))
    assert torch.equal(found["loss"], expected["loss"])


class Truth(nn.Module):
    """A similarity network that is never wrong: the test tells it the ``labels`` [n] of each batch."""

    def forward(self, images):
        same = self.labels[:, None] == self.labels
        return torch.stack([~same, same], -1).float()


def accuracy_with_the_truth(collection, truth, name, weight):
    """The accuracy of the categories found in 60 steps in which every pair is told rightly."""
    _, stage, engine = begin(collection, name, pairwise=weight, discovery__batch=64)
    stage.similarity = Truth()
    optimiser = torch.optim.Adam([p for p in stage.parameters() if p.requires_grad], lr=3e-3)
    generator = torch.Generator().manual_seed(0)
    stage.train()
    batches = torch.cat([stage.sampler.epoch(generator) for _ in range(30)])
    for t, index in enumerate(batches):
        stage.similarity.labels = truth[index - collection.n_labelled]
        views = stage.views.apply(
            engine.train_images.batch(index), stage.views.draw(generator, len(index), torch.tensor(t))
        )
        optimiser.zero_grad()
        stage.step(Batch(views, engine.labels[index], index, 0), torch.tensor(t))["loss"].backward()
        optimiser.step()
    found, _ = stage.eval().categories(engine)
    return matching.accuracy(found.tolist(), truth.tolist())


@pytest.mark.parametrize("name", METHODS)
def test_the_categories_are_found_where_the_similarities_are_right(digits, name):
    truth = torch.tensor([int(answer) for answer in read_digits(0).answers.unlabelled[:150]])
    assert accuracy_with_the_truth(digits, truth, name, 1.0) > 0.75
    assert accuracy_with_the_truth(digits, truth, name, 0.0) < 0.5


@pytest.mark.parametrize("name", METHODS)
def test_no_step_waits(digits, name):
    similarity, stage, engine = begin(digits, name)
    for each in (similarity, stage):
        _, batch = one_step(each, engine)
        step = torch.tensor(1)
        with NeverWaits():
            each.step(batch, step)["loss"].backward()
            each.after_step(step)


# Tasks


@pytest.mark.parametrize("name", METHODS)
def test_an_image_gets_its_own_tasks_categories_and_is_paired_with_its_own_task(digits, name):
    collection = in_two_tasks(digits)
    _, stage, engine = begin(collection, name)
    for batch in stage.sampler.epoch(torch.Generator()):
        assert len({int(index) < 190 for index in batch}) == 1
    nn.init.constant_(stage.head[-1].bias, 0)
    stage.head[-1].bias.data[4] = 100  # what all images would take
    found, confidence = stage.eval().categories(engine)
    assert set(found[:70]) <= {5, 6}
    assert set(found[70:]) == {9}
    assert 0.5 <= confidence[:70].min() <= confidence.max() <= 1
    outcome = run_method(chosen(name), collection, engine)
    assert set(outcome.assignments[:70]) <= {5, 6}
    assert set(outcome.assignments[70:]) <= {7, 8, 9}
    assert outcome.model.method == name
    assert len(outcome.model.classes) == 10


# Whole runs


def run(name, collection, folder, **changes):
    engine = Engine(collection, CPU, checkpoints=Checkpoints(folder, Reporter(quiet=True)))
    return run_method(chosen(name, **changes), collection, engine)


@pytest.mark.parametrize("stopped", [SelfSupervised, Similarity, Constrained, Joint], ids=lambda stage: stage.__name__)
@pytest.mark.parametrize("name", METHODS)
def test_a_stopped_run_resumes_bit_for_bit(name, stopped, digits, tmp_path, monkeypatch):
    def with_turns(folder):
        return run(name, digits, folder, self_supervision=True)

    assert resumes(with_turns, stopped, 4, monkeypatch, tmp_path)


def test_with_self_supervision_both_networks_keep_the_early_blocks_of_rotnet(digits):
    stages = {}

    class Watched(Engine):
        def train(self, stage):
            super().train(stage)
            stages[stage.name] = copy.deepcopy(stage)

    run_method(chosen(self_supervision=True, tuned_blocks=1), digits, Watched(digits, CPU))
    assert list(stages) == ["selfsupervised", "similarity", "discovery", "joint"]
    learned = [*stages["selfsupervised"].encoder.net.blocks]
    for encoder in (stages["similarity"].network[0], stages["discovery"].encoder, stages["joint"].encoder):
        for number, (own, first) in enumerate(zip(encoder.net.blocks, learned, strict=True)):
            for ours, theirs in zip(own.parameters(), first.parameters(), strict=True):
                assert torch.equal(ours, theirs) == (number < 2)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", METHODS)
def test_the_loss_over_pairs_finds_more_than_a_network_that_it_does_not_train(name, seed):
    reading = read_digits(seed)

    def accuracy(weight):
        settings = resolve_settings(name, f"{name}-digits", {"pairwise": weight, "joint.epochs": 1})
        found = run_method(settings, reading.collection, Engine(reading.collection, CPU, seed=seed)).assignments
        return matching.accuracy(found.tolist(), reading.answers.unlabelled)

    assert accuracy(1.0) > accuracy(0.0) + 0.05


# What is asked for


def test_pairs_of_one_category_are_refused(digits):
    labels = np.where(digits.labels >= 0, 0, -1)
    collection = dataclasses.replace(
        digits, labels=labels, classes=("0",), tasks=novel_tasks(1, ("", 5, np.arange(120, 270)))
    )
    with pytest.raises(UserError, match="labelled images of at least two"):
        run_method(chosen(), collection, Engine(collection, CPU))


def test_settings_that_cannot_be_right_are_refused_before_a_run():
    with pytest.raises(UserError, match="batch is 30 and categories is 20: a batch needs at least two images of each"):
        chosen(similarity__batch=30)
    with pytest.raises(UserError, match="tuned_blocks is 4, but the network has 3 blocks"):
        get_method("kcl")(chosen(self_supervision=True, tuned_blocks=4)).check((1, 8, 8))
    get_method("kcl")(chosen(tuned_blocks=4)).check((1, 8, 8))


@pytest.mark.parametrize("name", METHODS)
def test_the_classifier_over_old_and_new_follows_the_stretched_discovery(name, digits):
    method = get_method(name)
    assert method.stretched == "discovery"
    assert method(chosen(name, joint__epochs=7)).later_epochs(digits) == 7 * 270 / 150
