"""Mixed piles: images of known categories hide among those of novel ones, and every method that says so finds both."""

import dataclasses

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from methods_tiny import quick, same, trained_methods
from sklearn.datasets import load_digits
from test_every_method import count_steps, run, stop_at

from newfound import Discoverer
from newfound.data.collection import Collection, novel_tasks
from newfound.data.digits import read_digits
from newfound.data.vectors import VectorStore
from newfound.engine.loop import Engine
from newfound.errors import Interrupted, UserError
from newfound.losses.sinkhorn import sinkhorn
from newfound.methods import get_method, method_names
from newfound.methods.apl_features.headtraining import HeadTraining
from newfound.methods.apl_features.settings import FeatureSettings
from newfound.methods.base import run_method
from newfound.methods.parts import shares
from newfound.methods.parts.shares import shares_of
from newfound.methods.parts.swapped import SwappedPrediction
from newfound.methods.parts.tasks import allowed_categories
from newfound.methods.parts.views import make_views
from newfound.model import Encoder
from newfound.nets.heads import CosineClassifier, Whitened

TAKING = [name for name in method_names() if get_method(name).mixed]


@pytest.fixture(scope="module")
def mixed():
    """100 labelled digits, and a mixed pile of 150."""
    whole = read_digits(0, mixed=True).collection
    rows = np.concatenate([np.arange(0, whole.n_labelled, 3)[:100], whole.n_labelled + np.arange(150)])
    tasks = novel_tasks(5, ("", 5, np.arange(100, 250)), mixed=True)
    return Collection(whole.train.take(rows), whole.labels[rows], whole.classes, tasks, whole.test)


def test_the_paper_s_method_its_relatives_and_the_quick_ones_take_mixed_piles():
    assert TAKING == ["apl", "apl-features", "apl-plus", "iic", "kmeans", "simgcd", "uno"]


@pytest.mark.parametrize("name", sorted(set(trained_methods()) - set(TAKING)))
def test_the_others_refuse_before_they_train(name, mixed, monkeypatch):
    monkeypatch.setattr(get_method(name), "fit", lambda *arguments: pytest.fail("it trained"))
    with pytest.raises(UserError, match=f"mixed: {name} finds novel categories alone; .*: apl, apl-features, apl-plus"):
        run_method(quick(name), mixed, Engine(mixed, torch.device("cpu")))


@pytest.mark.parametrize("name", sorted(set(trained_methods()) & set(TAKING)))
def test_it_gives_known_and_novel_categories_and_resumes_bit_for_bit(name, mixed, tmp_path, monkeypatch):
    tasks = novel_tasks(5, ("A", 2, np.arange(100, 160)), ("B", 3, np.arange(160, 250)), mixed=True)
    collection = dataclasses.replace(mixed, tasks=tasks)
    with monkeypatch.context() as patch:
        counted = count_steps(patch)
        whole = run(name, collection, tmp_path / "whole")
    assert set(whole.assignments[:60]) <= {*range(7)}
    assert set(whole.assignments[60:]) <= {*range(5), 7, 8, 9}
    ever = np.concatenate([whole.assignments, *whole.earlier.values()])  # in two epochs one side may take all
    assert (ever < 5).any()
    assert (ever >= 5).any()
    sizes = np.bincount(whole.assignments, minlength=10)
    assert sizes[5] >= sizes[6]
    assert sizes[7] >= sizes[8] >= sizes[9]
    last = list(dict.fromkeys(counted))[-1]
    with monkeypatch.context() as patch:
        stop_at(patch, counted.index(last) + counted.count(last) // 2)
        with pytest.raises(Interrupted, match=f"of {last}$"):
            run(name, collection, tmp_path / "stopped")
    assert same(whole, run(name, collection, tmp_path / "stopped"))


def test_hidden_known_images_go_back_to_their_categories():
    digits = load_digits()
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.permutation(np.flatnonzero(digits.target == c))[:80] for c in range(10)])
    images, truth = digits.data[rows].astype(np.float32), digits.target[rows]
    old = truth % 2 == 0
    hidden = old & (np.arange(len(rows)) % 80 >= 40)
    labels = np.where(old & ~hidden, truth, -1)
    found = Discoverer("apl-features", n_novel=5, mixed=True).fit(images, labels).labels_
    assert (found[hidden] == truth[hidden]).mean() > 0.85
    assert (found[~old] >= 100).mean() > 0.75
    with pytest.warns(UserWarning, match=r"lies within known categories.* look for them there with mixed"):
        without = Discoverer("apl-features", n_novel=5).fit(images, labels)
    assert without.trust_["within"] > 0.2
    assert set(without.labels_[hidden]) <= set(without.novel_classes_)


def test_allowed_are_all_known_categories_and_the_task_s_own(mixed):
    tasks = novel_tasks(5, ("A", 2, np.arange(100, 160)), ("B", 3, np.arange(160, 250)), mixed=True)
    task_of, allowed = allowed_categories(dataclasses.replace(mixed, tasks=tasks))
    assert task_of.tolist() == [0] * 7 + [1] * 3
    assert allowed[:60].sum(0).tolist() == [60] * 7 + [0] * 3
    assert allowed[60:].sum(0).tolist() == [90] * 5 + [0] * 2 + [90] * 3


def test_known_categories_have_the_share_that_joins_them_and_novel_ones_equal_parts_of_the_rest(mixed):
    found = torch.tensor([0] * 30 + [2] * 15 + [5] * 100 + [6] * 5)
    expected = 0.9 * np.array([30, 0, 15, 0, 0, 21, 21, 21, 21, 21]) / 150 + 0.1 / 10
    np.testing.assert_allclose(shares_of(found, mixed).numpy(), expected, rtol=1e-5)


def test_a_novel_category_that_one_cluster_cannot_hold_adds_little_to_the_share_of_a_known_one(monkeypatch):
    rng = np.random.default_rng(0)
    angles = np.concatenate(
        [rng.normal(0, 3, 60), rng.uniform(15, 160, 140)]
    )  # 40 labelled, 20 hidden; a wide novel one
    features = torch.from_numpy(np.stack([np.cos(np.radians(angles)), np.sin(np.radians(angles))], 1)).float()
    labels = np.full(200, -1)
    labels[:40] = 0
    tasks = novel_tasks(1, ("", 1, np.arange(40, 200)), mixed=True)
    collection = Collection(VectorStore(np.zeros((200, 2), np.float32)), labels, ("a",), tasks, None)
    engine = Engine(collection, torch.device("cpu"))
    monkeypatch.setattr(engine, "features", lambda *_, **__: features)
    true = 0.9 * torch.tensor([20, 140]) / 160 + 0.1 / 2
    monkeypatch.setattr(shares, "finer", lambda n_novel, n_unlabelled: n_novel)
    assert shares.estimated_shares(None, engine)[0] > 2 * true[0]
    monkeypatch.undo()
    monkeypatch.setattr(engine, "features", lambda *_, **__: features)
    torch.testing.assert_close(shares.estimated_shares(None, engine), true, atol=0.08, rtol=0)


def test_prototypes_of_frozen_features_have_their_labelled_images_too(mixed):
    rng = np.random.default_rng(0)
    inputs = torch.from_numpy(rng.normal(size=(250, 6)).astype(np.float32))
    project, chosen = Whitened(6, 4), FeatureSettings()
    found = torch.from_numpy(rng.integers(0, 10, 150))
    stage = HeadTraining(project, CosineClassifier(4, 10), VectorStore(inputs), found, mixed, chosen)
    stage.before_epoch(0, Engine(mixed, torch.device("cpu")))
    unit = F.normalize(inputs @ project.linear.weight.T).detach()
    labels = np.concatenate([mixed.labels[:100], found.numpy()])
    means = torch.stack([F.normalize(unit[labels == c].sum(0), dim=0) for c in range(10)])
    soft = (unit[100:] @ means.T / chosen.epsilon).softmax(1)
    torch.testing.assert_close(stage.targets[100:], soft)
    assert stage.found.tolist() == soft.argmax(1).tolist()


def test_heads_label_the_pile_over_known_and_novel_categories_in_proportion_to_the_shares(mixed):
    torch.manual_seed(0)
    chosen = quick("uno")
    encoder = Encoder(chosen.network, 1, 8, torch.tensor([0.3]), torch.tensor([0.4]))
    known = CosineClassifier(encoder.width, 5)
    stage = SwappedPrediction(encoder, known, mixed, chosen, make_views(chosen.views, 8))
    stage.shares.copy_(shares_of(torch.tensor([0] * 90 + [6] * 60), mixed))
    index = torch.cat([torch.arange(20), torch.arange(100, 130)])
    labels, features = torch.from_numpy(mixed.labels)[index], torch.randn(100, encoder.width)
    batch = type("Batch", (), {"labels": labels, "index": index, "n_known": 20})
    logits = known(features).unflatten(0, (2, 50))
    for heads, each in ((stage.heads, 1), (stage.over_heads, chosen.heads.over)):
        _, targets = stage._predict(heads, each, logits, features, features[:0], batch)
        cosines = heads(features).unflatten(1, (2, 50))[:, :, 20:]
        both = torch.cat([(logits[:, 20:] * known.temperature).expand(len(cosines), -1, -1, -1), cosines], -1)
        columns = torch.tensor([*stage.shares[:5], *[float(stage.shares[5]) / each] * 5 * each])
        expected = sinkhorn(both, epsilon=chosen.heads.epsilon, rounds=chosen.heads.rounds, columns=columns)
        torch.testing.assert_close(targets[:, :, 20:], expected)
        assert (targets[:, :, :20].argmax(-1) == labels[:20]).all()
