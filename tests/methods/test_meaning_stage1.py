"""What the settings of stage I mean, each by what it does to prototypes, labels, gradients and views."""

import copy
import dataclasses
import math

import pytest
import torch
import torch.nn.functional as F
from methods_tiny import fit, make_stage, one_step

from newfound.data.collection import novel_tasks
from newfound.engine.loop import Engine
from newfound.losses import separation

N_LABELLED, N_KNOWN, N_NOVEL = 120, 5, 5


def begin(digits, **changes):
    """Stage I before its first step, and the engine that trains it."""
    stage, engine = make_stage(digits, **{"prototypes__follow": "hard"} | changes)
    start_epoch(stage, engine, 0)
    return stage, engine


def start_epoch(stage, engine, epoch):
    stage.before_epoch(epoch, engine)


def prototypes(stage):
    return stage.prototypes.prototypes


@torch.no_grad()
def novel_means(stage, batch, unit=True):
    """The mean feature [n, D] of the two whole views of each unlabelled image of a batch."""
    features = stage.train().encoder(batch.views.whole.flatten(0, 1))
    views = (F.normalize(features) if unit else features).unflatten(0, (2, -1))
    return views.mean(0)[batch.index >= N_LABELLED]


def trained_stages(monkeypatch, digits, **changes):
    """The outcome of a run, and its stages as they were at the end of their training."""
    stages, train = [], Engine.train

    def keep(engine, stage):
        train(engine, stage)
        stages.append(copy.deepcopy(stage))

    monkeypatch.setattr(Engine, "train", keep)
    return fit(digits, **changes), stages


# Separation


def test_the_separation_has_the_encoder_part_the_prototypes_and_moves_no_row_of_the_classifier(digits):
    stage, engine = begin(digits, prototypes__momentum=0.5)
    twin = copy.deepcopy(stage)
    parts, _ = one_step(twin, engine)
    torch.testing.assert_close(parts["pas"], separation(prototypes(twin)))
    weights = list(twin.encoder.net.parameters())
    slopes = torch.autograd.grad(parts["pas"], weights, retain_graph=True)
    assert torch.autograd.grad(parts["pas"], [twin.classifier.rows], allow_unused=True) == (None,)
    with torch.no_grad():
        for parameter, slope in zip(stage.encoder.net.parameters(), slopes, strict=True):
            parameter -= 1e-3 * slope  # so little that no label changes
    again, _ = one_step(stage, engine)
    assert again["pas"] < parts["pas"]


def test_the_loss_adds_the_separation_by_its_weight(digits):
    for weight in (0.0, 0.7):
        parts, _ = one_step(*begin(digits, prototypes__separation=weight))
        torch.testing.assert_close(parts["loss"], parts["ins"] + parts["cls"] + weight * parts["pas"])


# Whose features, and which labels, go on


def test_stage_2_trains_the_encoder_that_stage_1_left(digits, monkeypatch):
    _, (first, second, _) = trained_stages(monkeypatch, digits, stage1__epochs=1)
    before = dict(first.encoder.named_parameters())
    for name, parameter in second.encoder.named_parameters():
        assert parameter.requires_grad
        assert not torch.equal(parameter, before[name]), name
        assert torch.allclose(parameter, before[name], atol=0.2), name


@pytest.mark.parametrize("labels", ["online", "offline"])
@pytest.mark.usefixtures("as_found")
def test_stage_2_learns_from_the_labels_of_prototypes_or_of_clusters(digits, monkeypatch, labels):
    changes = {"selftraining__labels": labels, "stage1__epochs": 1}
    outcome, (first, second, _) = trained_stages(monkeypatch, digits, **changes)
    online, offline = outcome.earlier["online"], outcome.earlier["stage1"]
    assert (online != offline).any()
    pseudo = online if labels == "online" else offline
    assert second.labels[N_LABELLED:].tolist() == pseudo.tolist()
    assert second.labels[:N_LABELLED].tolist() == digits.labels[:N_LABELLED].tolist()
    nearest = F.normalize(outcome.features_before_stage2[N_LABELLED:]) @ prototypes(first).T
    assert online.tolist() == (N_KNOWN + nearest.argmax(1)).tolist()
    alone = fit(digits, **changes, selftraining__iterations=0)
    assert alone.assignments.tolist() == pseudo.tolist()


# Balance


@pytest.mark.parametrize(
    ("balance", "balanced_at"),
    [
        ("bank", {"first", "second", "first of the next epoch"}),
        ("batch", {"first", "second", "first of the next epoch"}),
        ("first_of_epoch", {"first", "first of the next epoch"}),
    ],
)
def test_labels_are_balanced_when_the_setting_says_so(digits, balance, balanced_at):
    stage, engine = begin(digits, prototypes__balance=balance, prototypes__rounds=20, prototypes__momentum=0.999)
    towards = F.normalize(engine.features(stage.encoder, engine.train_images, title="").mean(0), dim=0)
    noise = torch.randn(N_NOVEL - 1, len(towards), generator=torch.Generator().manual_seed(0))
    prototypes(stage).copy_(F.normalize(torch.cat([towards[None], 0.05 * noise - towards])))  # the first attracts all
    found = set()
    for name, t in {"first": 0, "second": 1, "first of the next epoch": stage.sampler.steps}.items():
        figures, _ = one_step(copy.deepcopy(stage), engine, t)
        assert float(figures["label_entropy"]) < 0.2 or float(figures["label_entropy"]) > 0.8
        if figures["label_entropy"] > 0.8:
            found.add(name)
    assert found == balanced_at


def test_hard_labels_are_certain_and_soft_ones_the_less_the_larger_epsilon(digits):
    def certainty(**changes):
        return float(one_step(*begin(digits, **changes))[0]["label_certainty"])

    assert certainty(prototypes__soft=False) == 1
    assert 1 > certainty(prototypes__epsilon=0.02) > certainty() > certainty(prototypes__epsilon=0.5) > 1 / N_NOVEL


def test_the_figures_that_show_a_collapse_are_those_of_the_labels(digits):
    stage, engine = begin(digits, prototypes__balance="first_of_epoch")
    figures, batch = one_step(copy.deepcopy(stage), engine, t=1)  # not balanced
    cosines = F.normalize(novel_means(stage, batch)) @ prototypes(stage).T
    labels = (cosines / stage.chosen.prototypes.epsilon).softmax(1)
    share = labels.mean(0)
    assert float(figures["label_entropy"]) == pytest.approx(float(-(share * share.log()).sum()) / math.log(5), abs=1e-4)
    assert float(figures["label_certainty"]) == pytest.approx(float(labels.max(1).values.mean()), abs=1e-4)
    reach = cosines.max(1).values - cosines.min(1).values
    assert float(figures["similarity_range"]) == pytest.approx(float(reach.mean()), abs=1e-4)


def test_equal_shares_have_the_entropy_1_whatever_the_number_of_categories(digits):
    for n in (2, 3):
        few = dataclasses.replace(digits, tasks=novel_tasks(N_KNOWN, ("", n, digits.unlabelled)))
        figures, _ = one_step(*begin(few, prototypes__balance="batch", prototypes__rounds=50))
        assert float(figures["label_entropy"]) == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("similarity", ["euclidean", "dot"])
def test_without_a_sphere_prototypes_follow_features_of_any_length(digits, similarity):
    changes = {"prototypes__similarity": similarity, "prototypes__balance": "batch", "prototypes__momentum": 0.7}
    stage, engine = begin(digits, **changes)
    before, twin = prototypes(stage).clone(), copy.deepcopy(stage)
    _, batch = one_step(stage, engine)
    mean = novel_means(twin, batch, unit=False)
    assert (mean.norm(dim=1) > 1.1).any()
    epsilon = stage.chosen.prototypes.epsilon
    labels = twin.prototypes.assign(mean, balanced=True, soft=True, epsilon=epsilon).argmax(1)
    for c in range(N_NOVEL):
        own = mean[labels == c]
        expected = 0.7 * before[c] + 0.3 * own.mean(0) if len(own) else before[c]
        torch.testing.assert_close(prototypes(stage)[c], expected, rtol=1e-4, atol=1e-5)


# Shapes and shares


def test_the_dimension_is_that_of_features_and_prototypes(digits):
    stage, engine = begin(digits, dimension=24)
    features = engine.features(stage.encoder, engine.train_images, title="")
    assert features.shape == (270, 24)
    assert prototypes(stage).shape == (N_NOVEL, 24)
    assert stage.classifier.rows.shape == (N_KNOWN + N_NOVEL, 24)


def test_prototypes_begin_as_the_novel_rows_of_the_classifier(digits):
    stage, _ = begin(digits)
    torch.testing.assert_close(prototypes(stage), F.normalize(stage.classifier.rows[N_KNOWN:].detach()))


@pytest.mark.parametrize(("share", "labelled"), [(0.0, 14), (0.75, 24)])
def test_the_labelled_share_is_that_of_each_batch(digits, share, labelled):
    stage, _ = begin(digits, labelled_share=share)
    for index in stage.sampler.epoch(torch.Generator().manual_seed(0)):
        assert (int((index < N_LABELLED).sum()), len(index)) == (labelled, 32)
        assert (index[:labelled] < N_LABELLED).all()


def test_without_prototypes_labelled_images_alone_are_classified(digits):
    stage, engine = begin(digits, online=False)
    twin = copy.deepcopy(stage).train()
    parts, batch = one_step(stage, engine)
    known = int((batch.index < N_LABELLED).sum())
    with torch.no_grad():
        logs = twin.classifier(twin.encoder(batch.views.whole.flatten(0, 1))).log_softmax(1).unflatten(0, (2, -1))
    each = [-float(logs[view, i, batch.labels[i]]) for view in range(2) for i in range(known)]
    assert parts["cls"].item() == pytest.approx(sum(each) / len(each), rel=1e-4)


# Self-distillation


def test_the_last_layer_of_the_head_waits_and_the_teacher_does_not_learn_by_gradient(digits):
    stage, _ = begin(digits, dino__frozen_epochs=3)
    groups = stage.parameter_groups()
    frozen = [group for group in groups if group.get("frozen_epochs")]
    assert [(g["frozen_epochs"], g["weight_decay"]) for g in frozen] == [(3, 0.0)]
    assert frozen[0]["params"] == [stage.learner.head.last.weight]
    learning = {id(p) for group in groups for p in group["params"]}
    assert learning.isdisjoint(id(p) for p in stage.learner.teacher.parameters())
    assert learning >= {id(p) for p in stage.encoder.parameters()}
    assert sum(len(group["params"]) for group in groups) == len(learning)


def test_the_centre_follows_the_teachers_outputs(digits):
    stage, engine = begin(digits, dino__centre_momentum=0.8)
    stage.learner.centre.copy_(torch.linspace(-1, 1, 64))
    twin = copy.deepcopy(stage)
    figures, batch = one_step(stage, engine)
    encoder, head = twin.learner.teacher
    with torch.no_grad():
        outputs = head.train()(encoder.train()(batch.views.whole.flatten(0, 1)))
    expected = 0.8 * torch.linspace(-1, 1, 64) + 0.2 * outputs.mean(0)
    torch.testing.assert_close(stage.learner.centre, expected, rtol=1e-4, atol=1e-5)
    said = ((outputs - torch.linspace(-1, 1, 64)) / 0.04).softmax(1)
    entropy = -(said * said.clamp(min=1e-30).log()).sum(1).mean() / math.log(64)
    spread = -(said.mean(0) * said.mean(0).clamp(min=1e-30).log()).sum() / math.log(64)
    assert float(figures["teacher_entropy"]) == pytest.approx(float(entropy), abs=1e-4)
    assert float(figures["teacher_spread"]) == pytest.approx(float(spread), abs=1e-4)
    assert float(figures["ins_of_uniform"]) == pytest.approx(figures["ins"].item() / math.log(64), rel=1e-5)


def test_the_loss_of_instances_is_that_of_all_views_of_the_student(digits):
    from reference.distillation import self_distillation

    stage, engine = begin(digits, views__extra=2, dino__student_temperature=0.2, dino__teacher_temperature=0.3)
    stage.learner.centre.copy_(torch.linspace(-0.1, 0.1, 64))
    twin = copy.deepcopy(stage).train()
    parts, batch = one_step(stage, engine)
    crops = batch.views
    encoder, head = twin.learner.teacher
    with torch.no_grad():
        taught = head(encoder(crops.whole.flatten(0, 1))).unflatten(0, (2, -1))
        whole = twin.learner.head(twin.encoder(crops.whole.flatten(0, 1))).unflatten(0, (2, -1))
        extra = twin.learner.head(twin.encoder(crops.extra.flatten(0, 1))).unflatten(0, (2, -1))
    some = slice(0, 32)
    expected = self_distillation(
        torch.cat([whole, extra])[:, some].double(), taught[:, some].double(), twin.learner.centre.double(), 0.2, 0.3
    )
    assert parts["ins"].item() == pytest.approx(float(expected), rel=1e-4)


def test_the_teachers_momentum_rises_to_one(digits):
    stage, _ = begin(digits, dino__momentum=0.9)
    momentum, total = stage.learner.momentum, stage.sampler.steps * 2
    assert len(momentum) == total
    assert float(momentum[0]) == pytest.approx(0.9)
    assert float(momentum[total // 2]) == pytest.approx(0.95, abs=0.005)
    assert (momentum.diff() > 0).all()
    assert 0.999 < float(momentum[-1]) <= 1


def test_after_a_step_the_teacher_follows_the_student_by_its_momentum(digits):
    stage, engine = begin(digits, dino__momentum=0.7)
    parts, _ = one_step(stage, engine)
    before = [parameter.clone() for parameter in stage.learner.teacher.parameters()]
    parts["loss"].backward()
    torch.optim.SGD(stage.parameters(), lr=0.5).step()
    t = stage.sampler.steps
    stage.after_step(torch.tensor(t))
    momentum = 1 - 0.3 * (1 + math.cos(math.pi * t / (2 * stage.sampler.steps))) / 2
    student = [*stage.encoder.parameters(), *stage.learner.head.parameters()]
    for old, new, followed in zip(before, stage.learner.teacher.parameters(), student, strict=True):
        torch.testing.assert_close(new, momentum * old + (1 - momentum) * followed, rtol=1e-4, atol=1e-6)
    assert any(not torch.equal(a, b) for a, b in zip(before, stage.learner.teacher.parameters(), strict=True))


# Views


def test_views_are_the_domains_where_the_settings_leave_them_open(digits):
    def views(**changes):
        return begin(digits, **changes)[0].views

    from newfound.views.natural import natural_views
    from newfound.views.symbolic import symbolic_views

    for domain, usual in (("natural", natural_views), ("symbolic", symbolic_views)):
        ours, theirs = views(views__domain=domain), usual(8, extra=2)
        for name in ("geometric", "affine", "extra_size", "whole_scale", "flip"):
            assert getattr(ours, name) == getattr(theirs, name), name
    assert views(views__rotation=30).rotation == 30
    assert views(views__affine=False).affine is False
    assert views(views__geometric=True).geometric is True
    assert views(views__extra=0).extra == 0


# Warnings


def test_warnings_come_beyond_their_bars(digits):
    stage, engine = begin(digits, stage1__epochs=10)
    start_epoch(stage, engine, 5)
    at = {"label_entropy": 0.3, "pas": 0.95, "teacher_entropy": 0.999, "teacher_spread": 0.02}
    assert stage.warning(at) is None
    beyond = {"label_entropy": 0.299, "pas": 0.951, "teacher_entropy": 0.9995, "teacher_spread": 0.019}
    for name, value in beyond.items():
        assert stage.warning(at | {name: value}) is not None, name
