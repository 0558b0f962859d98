"""How unlabelled images come by their labels in stage I, beside the usual way."""

import copy
import dataclasses
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from methods_tiny import chosen, make_stage, one_step
from reference.sinkhorn import sinkhorn

from newfound.data.collection import Task
from newfound.engine.loop import Engine
from newfound.errors import UserError
from newfound.methods.apl.representation import Representation, random_balanced
from newfound.methods.kmeans import cluster
from newfound.model import Encoder

KNOWN, NOVEL = 5, 5


def whole_views(encoder, batch):
    """Unit features [2, n, D] of the two whole views, in training mode; the networks stay as they are."""
    with torch.no_grad():
        return F.normalize(copy.deepcopy(encoder).train()(batch.views.whole.flatten(0, 1))).unflatten(0, (2, -1))


def labels_of(stage, bank, rows, view):
    """The labels that Sinkhorn's iterations give ``view`` [m, D]: among the bank's other images, or in the batch."""
    if stage.chosen.prototypes.balance == "bank":
        features = bank.clone()
        features[rows] = view
    else:
        features, rows = view, torch.arange(len(rows))
    cosines = F.normalize(features) @ stage.prototypes.prototypes.T
    labels = sinkhorn(cosines.double().tolist(), stage.chosen.prototypes.epsilon, stage.chosen.prototypes.rounds)
    return torch.tensor(labels)[rows].float()


def prepared(digits, **changes):
    """A stage before its first step, and that step's batch."""
    stage, engine = make_stage(digits, **changes)
    stage.before_epoch(0)
    twin = copy.deepcopy(stage)
    _, batch = one_step(twin, engine)
    stage.train()
    return stage, batch


@pytest.mark.parametrize("balance", ["bank", "batch"])
@pytest.mark.parametrize("features", ["student", "teacher"])
@pytest.mark.parametrize("labels_from", ["mean", "first", "own", "swapped"])
def test_labels_come_from_the_features_that_were_asked_for(digits, labels_from, features, balance):
    changes = {"prototypes__labels_from": labels_from, "prototypes__features": features}
    stage, batch = prepared(digits, **changes, prototypes__balance=balance, prototypes__follow="hard")
    known, rows = stage.sampler.pools[0].per_batch, batch.index[batch.index >= 120] - 120
    teacher = stage.instance.teacher[0]
    with torch.no_grad():  # the teacher is the student still: make it another
        for p in teacher.parameters():
            p.mul_(1 + 0.3 * torch.randn(p.shape, generator=torch.Generator().manual_seed(p.numel())))
    source = whole_views(teacher if features == "teacher" else stage.encoder, batch)[:, known:]
    bank, before = stage.bank.clone(), stage.prototypes.prototypes.clone()

    if labels_from == "swapped":
        labels = [labels_of(stage, bank, rows, source[1]), labels_of(stage, bank, rows, source[0])]
        followed = [source[0], source[1]]
    elif labels_from == "own":
        labels = [labels_of(stage, bank, rows, source[0]), labels_of(stage, bank, rows, source[1])]
        followed = [source[0], source[1]]
    else:
        given = source.mean(0) if labels_from == "mean" else source[0]
        labels, followed = [labels_of(stage, bank, rows, given)] * 2, [F.normalize(given)]
    with torch.no_grad():
        raw = copy.deepcopy(stage.encoder)(batch.views.whole.flatten(0, 1))
        logits = copy.deepcopy(stage.classifier)(raw).unflatten(0, (2, -1)).log_softmax(-1)
    total = 0.0
    for v in range(2):
        for i in range(len(batch.index)):
            if i < known:
                total -= float(logits[v, i, batch.labels[i]])
            else:
                total -= sum(float(labels[v][i - known, c] * logits[v, i, KNOWN + c]) for c in range(NOVEL))
    expected = before.clone()
    for c in range(NOVEL):
        own = [f[i] for f, y in zip(followed, labels, strict=False) for i in range(len(rows)) if y[i].argmax() == c]
        if own:
            momentum = stage.prototypes.momentum
            expected[c] = F.normalize(momentum * before[c] + (1 - momentum) * torch.stack(own).mean(0), dim=0)

    parts = stage.step(batch, torch.tensor(0))
    assert parts["cls"].item() == pytest.approx(total / (2 * len(batch.index)), rel=1e-4)
    torch.testing.assert_close(stage.prototypes.prototypes, expected, rtol=1e-4, atol=1e-5)
    if balance == "bank":
        torch.testing.assert_close(stage.bank[rows], source[0] if labels_from == "first" else source.mean(0))


def test_old_features_of_the_bank_do_not_count_in_the_balance(digits):
    stage, _ = make_stage(digits, prototypes__balance="bank", prototypes__newest=2)
    generator = torch.Generator().manual_seed(0)
    stage.bank.copy_(torch.randn(stage.bank.shape, generator=generator))  # of no step: as old as can be
    some = [torch.randperm(len(stage.bank), generator=generator)[:20] for _ in range(3)]
    features = [F.normalize(torch.randn(20, 128, generator=generator)) for _ in some]
    for t in range(3):
        found = stage._targets(features[t], some[t], torch.tensor(t))
        counted = {int(row): f for u in (t - 1, t) if u >= 0 for row, f in zip(some[u], features[u], strict=True)}
        cosines = torch.stack(list(counted.values())) @ stage.prototypes.prototypes.T
        labels = sinkhorn(cosines.double().tolist(), stage.chosen.prototypes.epsilon, stage.chosen.prototypes.rounds)
        place = {row: i for i, row in enumerate(counted)}
        expected = torch.tensor([labels[place[int(row)]] for row in some[t]]).float()
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)


def test_how_old_features_may_be_is_asked_of_a_bank_alone():
    with pytest.raises(UserError, match="newest=5 needs a balance of bank, not batch"):
        chosen(prototypes__balance="batch", prototypes__newest=5)


@pytest.mark.parametrize(("balance", "random_at"), [("once", {0}), ("first_of_epoch", {0, "steps", "2 steps"})])
def test_random_first_labels_hold_at_first_steps_alone(digits, balance, random_at):
    stage, _ = make_stage(digits, prototypes__balance=balance, prototypes__first="random")
    steps, rows = stage.sampler.steps, torch.arange(10, 40)
    source = F.normalize(torch.randn(30, 128, generator=torch.Generator().manual_seed(0)))
    similar = stage.prototypes.assign(source, balanced=False, soft=True)
    for name, t in {0: 0, 1: 1, "steps": steps, "steps + 1": steps + 1, "2 steps": 2 * steps}.items():
        targets, _ = stage._assign(source, rows, torch.tensor(t))
        if name in random_at:
            assert torch.equal(targets, torch.eye(NOVEL)[stage.first_labels[10:40]]), name
        else:
            torch.testing.assert_close(targets, similar)


def test_random_first_labels_are_equal_in_number_within_each_task_and_follow_from_the_seed(digits):
    two = dataclasses.replace(digits, tasks=(Task("A", 2, np.arange(120, 190)), Task("B", 3, np.arange(190, 270))))
    labels = random_balanced(two, torch.Generator().manual_seed(0))
    assert torch.bincount(labels[:70]).tolist() == [35, 35]
    assert sorted(torch.bincount(labels[70:], minlength=5).tolist()) == [0, 0, 26, 27, 27]
    assert (labels[:20] != labels[0]).any()

    def drawn(seed):
        settings = chosen(prototypes__balance="once", prototypes__first="random")
        encoder = Encoder("tiny", 1, 8, torch.tensor([0.3]), torch.tensor([0.4]))
        return Representation(encoder, digits, settings, Engine(digits, torch.device("cpu"), seed=seed)).first_labels

    assert torch.equal(drawn(1), drawn(1))
    assert not torch.equal(drawn(1), drawn(2))


@pytest.mark.parametrize("balance", ["bank", "batch", "never"])
def test_random_first_labels_need_a_first_step(balance):
    with pytest.raises(UserError, match=f"prototypes.first=random needs a balance .* not {balance}"):
        chosen(prototypes__first="random", prototypes__balance=balance)


def test_the_temperature_of_labels_goes_along_a_cosine(digits):
    stage, _ = make_stage(digits, prototypes__final_epsilon=0.01, prototypes__balance="batch")
    total = stage.sampler.steps * 2
    source = F.normalize(torch.randn(30, 128, generator=torch.Generator().manual_seed(0)))
    certainty = []
    for t in (0, total // 3, total - 1):
        epsilon = 0.01 + 0.04 * (1 + math.cos(math.pi * t / total)) / 2
        targets, figures = stage._assign(source, torch.arange(30), torch.tensor(t))
        expected = stage.prototypes.assign(source, balanced=True, soft=True, epsilon=epsilon)
        torch.testing.assert_close(targets, expected, rtol=1e-3, atol=1e-5)
        certainty.append(float(figures["label_certainty"]))
    assert certainty[0] < certainty[1] < certainty[2]


def test_weights_of_the_cross_entropy_are_those_of_the_settings(digits):
    def parts(**changes):
        stage, engine = make_stage(digits, **changes)
        return one_step(stage, engine)[0]

    labelled = parts(online=False)["cls"] * 14 / 32  # of a batch of 32, 14 are labelled
    none, half, whole = (parts(prototypes__novel_weight=w)["cls"] for w in (0.0, 0.5, 1.0))
    torch.testing.assert_close(none, labelled)
    torch.testing.assert_close(half, (none + whole) / 2)
    assert whole > 1.2 * none
    figures = parts(category_weight=0.3, dino__weight=0.5, prototypes__separation=0.7)
    torch.testing.assert_close(figures["loss"], 0.5 * figures["ins"] + 0.3 * figures["cls"] + 0.7 * figures["pas"])


def test_until_they_begin_labels_reach_neither_encoder_nor_classifier(digits):
    def parts(t, **changes):
        stage, engine = make_stage(digits, **changes, stage1__epochs=4)
        return one_step(stage, engine, t)[0]

    steps = make_stage(digits)[0].sampler.steps
    early, late = 2 * steps - 1, 2 * steps
    none, whole = parts(early, prototypes__novel_weight=0.0), parts(late)
    before, after = (parts(t, prototypes__begin=0.5) for t in (early, late))
    torch.testing.assert_close(before["cls"], none["cls"])
    torch.testing.assert_close(before["loss"], before["ins"] + before["cls"])
    torch.testing.assert_close(after["cls"], whole["cls"])
    torch.testing.assert_close(after["loss"], whole["loss"])
    assert after["cls"] > 1.2 * parts(late, prototypes__novel_weight=0.0)["cls"]


@pytest.mark.parametrize("balance", ["bank", "batch"])
@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_prototypes_begin_as_clusters_of_the_features(digits, balance, similarity):
    changes = {"prototypes__balance": balance, "prototypes__similarity": similarity, "prototypes__begin": 0.5}
    stage, engine = make_stage(digits, **changes, stage1__epochs=4)
    at_first = stage.prototypes.prototypes.clone()
    for epoch in (0, 1, 3):
        stage.before_epoch(epoch)
        assert torch.equal(stage.prototypes.prototypes, at_first)
    stage.before_epoch(2)
    images = engine.train_images.take(digits.unlabelled)
    features = engine.features(stage.encoder, images, title="")
    unit = F.normalize(features)
    labels = cluster(unit, NOVEL, stage.chosen.cluster, engine.seed).labels
    of = unit if similarity == "cosine" else features
    means = torch.stack([of[labels == c].mean(0) for c in range(NOVEL)])
    expected = F.normalize(means) if similarity == "cosine" else means
    torch.testing.assert_close(stage.prototypes.prototypes, expected)


def test_prototypes_that_are_one_are_warned_of_with_a_remedy(digits):
    bad = {"label_entropy": 1.0, "pas": 0.96, "teacher_entropy": 0.5, "teacher_spread": 0.8}

    def warning(epoch, figures=bad, **changes):
        stage, _ = make_stage(digits, **changes, stage1__epochs=10)
        stage.before_epoch(epoch)
        return stage.warning(figures)

    assert "prototypes.follow=hard" in warning(5, prototypes__follow="soft")
    assert "larger prototypes.separation" in warning(5, prototypes__follow="hard")
    assert "larger prototypes.separation" in warning(5, prototypes__follow="soft", prototypes__soft=False)
    assert warning(5, bad | {"pas": 0.94}) is None
    assert warning(4) is None, "features are alike at first"
    assert warning(5, prototypes__similarity="dot") is None, "lengths tell them apart"
    assert warning(5, prototypes__separation_of="classifier") is None, "pas is the classifier's"


def test_a_single_novel_category_raises_no_alarm(digits):
    one = dataclasses.replace(digits, tasks=(Task("", 1, digits.unlabelled),))
    stage, engine = make_stage(one, stage1__epochs=1)
    figures, _ = one_step(stage, engine)
    assert figures["pas"].item() == 0
    assert stage.warning({name: value.item() for name, value in figures.items()}) is None
