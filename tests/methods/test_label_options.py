"""How unlabelled images come by their labels in stage I, beside the usual way."""

import copy
import dataclasses

import pytest
import torch
import torch.nn.functional as F
from methods_tiny import make_stage, one_step
from reference.sinkhorn import sinkhorn

from newfound.data.collection import novel_tasks

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
    stage.before_epoch(0, engine)
    twin = copy.deepcopy(stage)
    _, batch = one_step(twin, engine)
    stage.train()
    return stage, batch


@pytest.mark.parametrize("balance", ["bank", "batch"])
@pytest.mark.parametrize("labels_from", ["mean", "swapped"])
def test_labels_come_from_the_features_that_were_asked_for(digits, labels_from, balance):
    changes = {"prototypes__labels_from": labels_from, "prototypes__balance": balance}
    stage, batch = prepared(digits, **changes, prototypes__follow="hard")
    known, rows = batch.n_known, batch.index[batch.n_known :] - 120
    source = whole_views(stage.encoder, batch)[:, known:]
    bank, before = stage.bank.clone(), stage.prototypes.prototypes.clone()

    if labels_from == "swapped":
        labels = [labels_of(stage, bank, rows, source[1]), labels_of(stage, bank, rows, source[0])]
        followed = [source[0], source[1]]
    else:
        labels = [labels_of(stage, bank, rows, source.mean(0))] * 2
        followed = [F.normalize(source.mean(0))]
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
        torch.testing.assert_close(stage.bank[rows], source.mean(0))


def test_labels_are_balanced_at_the_first_step_of_an_epoch_alone(digits):
    stage, _ = make_stage(digits, prototypes__balance="first_of_epoch")
    steps, rows = stage.sampler.steps, torch.arange(10, 40)
    source = F.normalize(torch.randn(30, 128, generator=torch.Generator().manual_seed(0)))
    similar = stage.prototypes.assign(source, balanced=False, soft=True)
    balanced = stage.prototypes.assign(source, balanced=True, soft=True)
    assert (similar - balanced).abs().max() > 0.05
    for t in (0, 1, steps - 1, steps, steps + 1, 2 * steps):
        targets, _ = stage._assign(source, rows, torch.tensor(t))
        torch.testing.assert_close(targets, balanced if t % steps == 0 else similar)


def test_prototypes_that_are_one_are_warned_of_with_a_remedy(digits):
    bad = {"label_entropy": 1.0, "pas": 0.96, "teacher_entropy": 0.5, "teacher_spread": 0.8}

    def warning(epoch, figures=bad, **changes):
        stage, engine = make_stage(digits, **changes, stage1__epochs=10)
        stage.before_epoch(epoch, engine)
        return stage.warning(figures)

    assert "prototypes.follow=hard" in warning(5, prototypes__follow="soft")
    assert "larger prototypes.separation" in warning(5, prototypes__follow="hard")
    assert "larger prototypes.separation" in warning(5, prototypes__follow="soft", prototypes__soft=False)
    assert warning(5, bad | {"pas": 0.94}) is None
    assert warning(4) is None, "features are alike at first"
    assert warning(5, prototypes__similarity="dot") is None, "lengths tell them apart"


def test_a_single_novel_category_raises_no_alarm(digits):
    one = dataclasses.replace(digits, tasks=novel_tasks(5, ("", 1, digits.unlabelled)))
    stage, engine = make_stage(one, stage1__epochs=1)
    figures, _ = one_step(stage, engine)
    assert figures["pas"].item() == 0
    assert stage.warning({name: value.item() for name, value in figures.items()}) is None
