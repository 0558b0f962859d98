import dataclasses
import json
import os
import signal

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from methods_tiny import TINY, NeverWaits, fit, make_stage, one_step

from newfound.data.collection import novel_tasks
from newfound.errors import Interrupted
from newfound.methods.parts import selftraining
from newfound.methods.parts.labels import class_means, rectification
from newfound.methods.parts.representation import Representation
from newfound.methods.parts.selftraining import SelfTraining, start_from
from newfound.nets.heads import classifier
from newfound.runs import discovery


def test_both_stages_run_and_the_model_predicts_old_and_new(digits):
    outcome = fit(digits)
    assert set(outcome.earlier) == {"stage1", "online", "stage2-1", "stage2-2"}
    assert np.array_equal(outcome.assignments, outcome.earlier["stage2-2"])
    logits = outcome.model.eval()(digits.test.images)
    assert logits.shape == (449, 10)
    predicted = set(logits.argmax(1).tolist())
    assert predicted & set(range(5))
    assert predicted & set(range(5, 10))
    assert set(outcome.assignments) <= set(range(5, 10))
    assert ((outcome.confidence > 0.19) & (outcome.confidence <= 1)).all()


def test_the_loss_is_the_sum_of_its_weighted_parts(digits):
    stage, engine = make_stage(digits, prototypes__separation=0.7)
    parts, _ = one_step(stage, engine)
    torch.testing.assert_close(parts["loss"], parts["ins"] + parts["cls"] + 0.7 * parts["pas"])


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"instance__learner": "none"}, {"cls", "pas"}),
        ({"category": False}, {"ins"}),
        ({"online": False}, {"ins", "cls"}),
        ({}, {"ins", "cls", "pas"}),
    ],
)
def test_an_ablation_leaves_its_loss_out(digits, changes, parts):
    stage, engine = make_stage(digits, **changes)
    figures, _ = one_step(stage, engine)
    assert parts == set(figures) & {"ins", "cls", "pas"}


def test_labels_are_one_an_image_balanced_and_only_on_novel_categories(digits):
    stage, engine = make_stage(digits)
    stage.before_epoch(0, engine)
    stage.train()
    rows = torch.arange(150)
    source = F.normalize(torch.randn(150, 128, generator=torch.Generator().manual_seed(0)))
    targets, figures = stage._assign(source, rows, torch.tensor(0))
    torch.testing.assert_close(targets.sum(1), torch.ones(150))
    torch.testing.assert_close(targets.sum(0), torch.full((5,), 30.0), rtol=0.1, atol=0)
    assert figures["label_entropy"] > 0.99


def test_extra_views_do_not_move_the_statistics_that_features_are_read_with(digits):
    with_extra, engine = make_stage(digits, views__extra=2)
    without, _ = make_stage(digits, views__extra=0)
    _, batch = one_step(with_extra, engine)
    without.train()
    without.encoder(batch.views.whole.flatten(0, 1))
    for (name, a), (_, b) in zip(with_extra.encoder.named_buffers(), without.encoder.named_buffers(), strict=True):
        if "running" in name:
            assert torch.equal(a, b), name


def test_the_teacher_has_statistics_of_its_own_and_follows_the_student(digits):
    stage, engine = make_stage(digits)
    before = [p.clone() for p in stage.learner.teacher.parameters()]
    losses, _ = one_step(stage, engine)
    losses["loss"].backward()
    torch.optim.SGD(stage.parameters(), lr=0.5).step()
    stage.after_step(torch.tensor(0))
    momentum = float(stage.learner.momentum[0])
    student = [*stage.encoder.parameters(), *stage.learner.head.parameters()]
    for old, new, s in zip(before, stage.learner.teacher.parameters(), student, strict=True):
        torch.testing.assert_close(new, momentum * old + (1 - momentum) * s)
    assert all(p.grad is None for p in stage.learner.teacher.parameters())


def test_the_separation_reaches_the_features(digits):
    stage, engine = make_stage(digits)
    parts, _ = one_step(stage, engine)
    (gradient,) = torch.autograd.grad(parts["pas"], [next(stage.encoder.net.parameters())])
    assert gradient.abs().sum() > 0


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"prototypes__balance": "first_of_epoch", "classifier": "cosine"},
        {"prototypes__labels_from": "swapped", "prototypes__balance": "batch"},
    ],
)
def test_a_step_never_waits_for_the_device(digits, changes):
    stage, engine = make_stage(digits, **changes)
    _, batch = one_step(stage, engine)
    step = torch.tensor(1)
    with NeverWaits():
        stage.views.draw(torch.Generator().manual_seed(0), 32, step)
        stage.step(batch, step)["loss"].backward()
        stage.after_step(step)


def test_a_collapse_is_warned_of_with_a_remedy(digits):
    stage, _ = make_stage(digits, prototypes__balance="first_of_epoch")
    fine = {"label_entropy": 0.9, "pas": 0.3, "teacher_entropy": 0.5, "teacher_spread": 0.8}
    assert stage.warning(fine) is None
    assert "prototypes.balance=bank" in stage.warning(fine | {"label_entropy": 0.1})
    assert "teacher_temperature" in stage.warning(fine | {"teacher_entropy": 1.0})
    assert "one output" in stage.warning(fine | {"teacher_spread": 0.0})


def test_labels_that_collapse_although_they_are_balanced_have_another_remedy(digits):
    stage, _ = make_stage(digits, prototypes__balance="bank", prototypes__soft=False)
    assert "prototypes.soft=true" in stage.warning({"label_entropy": 0.1, "pas": 0.3})


def test_weights_of_rectification_are_cosines_to_the_class_mean():
    features = torch.randn(30, 6, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(30) % 3
    prototypes = class_means(features, labels, 3)
    weights = rectification(features, labels, prototypes)
    for i in range(30):
        mean = sum(features[j] / features[j].norm() for j in range(30) if labels[j] == labels[i])
        cosine = float(mean @ features[i] / mean.norm() / features[i].norm())
        assert float(weights[i]) == pytest.approx(max(cosine, 0.0), abs=1e-5)


def test_labelled_images_count_fully_in_stage_2(digits, monkeypatch):
    seen = []
    original = SelfTraining.__init__

    def spy(self, *arguments):
        seen.append((arguments[5].clone(), arguments[6].clone()))
        original(self, *arguments)

    monkeypatch.setattr(SelfTraining, "__init__", spy)
    fit(digits, stage1__epochs=1)
    for labels, weights in seen:
        assert torch.equal(labels[:120], torch.from_numpy(digits.labels[:120]))
        assert (labels[120:] >= 5).all()
        assert (weights[:120] == 1).all()
        assert (weights[120:] < 1).any()
    assert len(seen) == 2


@pytest.mark.parametrize("start", ["random", "prototypes"])
def test_the_classifier_begins_at_random_or_as_the_prototypes(digits, monkeypatch, start):
    heads, prototypes = [], []
    real = SelfTraining.__init__

    def spy(self, number, encoder, head, *others):
        heads.append(head.rows.detach().clone())
        real(self, number, encoder, head, *others)

    monkeypatch.setattr(SelfTraining, "__init__", spy)
    monkeypatch.setattr(selftraining, "class_means", lambda *a: prototypes.append(class_means(*a)) or prototypes[-1])
    fit(digits, stage1__epochs=1, selftraining__start=start)
    alike = [float(F.cosine_similarity(*pair).min()) > 0.999 for pair in zip(heads, prototypes, strict=True)]
    assert alike == [start == "prototypes", False], "only a new classifier begins, and the second iteration goes on"


@pytest.mark.parametrize("kind", ["linear", "cosine"])
def test_an_empty_category_begins_with_a_row_that_can_learn(kind):
    torch.manual_seed(0)
    prototypes = torch.nn.functional.normalize(torch.randn(4, 8))
    prototypes[2] = 0
    head, features = classifier(kind, 8, 4), 3 * prototypes[[0, 1, 3]]
    start_from(head, prototypes, features)
    assert head.rows[2].norm() > 0.1
    own = head(features)[torch.arange(3), torch.tensor([0, 1, 3])]
    torch.testing.assert_close(own, torch.full((3,), 10.0))


OPTIONS = {"prototypes.labels_from": "swapped", "prototypes.balance": "batch", "classifier": "cosine"}


def short_run(out, changes):
    return discovery.discover(dataset="digits-rehearsal", method="apl", out=out, settings=TINY | changes, threads=1)


@pytest.fixture(scope="module")
def whole_runs(tmp_path_factory):
    """Run folders of short runs that nobody stopped: without and with OPTIONS."""
    folder = tmp_path_factory.mktemp("whole")
    return {bool(changes): short_run(folder / str(len(changes)), changes).folder for changes in ({}, OPTIONS)}


@pytest.mark.parametrize(
    ("victim", "at", "changes"),
    [
        ("stage1", 0, {}),
        ("stage1", 30, {}),
        ("stage2-1", 25, {}),
        ("stage2-2", 3, {}),
        ("stage1", 30, OPTIONS),
        ("stage2-1", 25, OPTIONS),
    ],
)
def test_a_run_stopped_in_either_stage_resumes_bit_for_bit(tmp_path, monkeypatch, whole_runs, victim, at, changes):
    whole = whole_runs[bool(changes)]
    real = {cls: cls.step for cls in (Representation, SelfTraining)}

    def stopping(self, batch, t):
        if self.name == victim and int(t) == at:
            os.kill(os.getpid(), signal.SIGTERM)
        return real[type(self)](self, batch, t)

    for cls in real:
        monkeypatch.setattr(cls, "step", stopping)
    with pytest.raises(Interrupted):
        short_run(tmp_path / "stopped", changes)
    for cls, step in real.items():
        monkeypatch.setattr(cls, "step", step)
    again = discovery.resume(tmp_path / "stopped").folder
    for name in ("metrics.jsonl", "assignments.csv", "model/model.safetensors"):
        assert (whole / name).read_bytes() == (again / name).read_bytes(), name
    stages = [json.loads(line)["stage"] for line in (again / "metrics.jsonl").read_text().splitlines()]
    assert list(dict.fromkeys(stages)) == ["stage1", "stage2-1", "stage2-2"]


def test_each_task_has_its_own_prototypes_and_labels(digits):
    two = dataclasses.replace(
        digits, tasks=novel_tasks(5, ("A", 2, np.arange(120, 190)), ("B", 3, np.arange(190, 270)))
    )
    outcome = fit(two, stage1__epochs=1)
    for found in [outcome.assignments, *outcome.earlier.values()]:
        assert set(found[:70]) <= {5, 6}
        assert set(found[70:]) <= {7, 8, 9}
    assert outcome.model.novel == ("A/novel-01", "A/novel-02", "B/novel-01", "B/novel-02", "B/novel-03")


def test_the_estimator_finds_categories_with_the_papers_method(digits):
    from newfound import APL as Estimator

    images = digits.train.images[:, 0].numpy()
    settings = {k: v for k, v in TINY.items() if k != "views.extra"} | {"network": "tiny", "stage1.epochs": 1}
    model = Estimator(n_novel=5, domain="symbolic", settings=settings).fit(images, digits.labels)
    assert model.predict(images).shape == (270,)
    assert set(model.labels_[120:]) <= set(model.novel_classes_)
    with pytest.raises(ValueError, match="it can be auto, natural or symbolic"):
        Estimator(domain="odd").fit(images, digits.labels)
