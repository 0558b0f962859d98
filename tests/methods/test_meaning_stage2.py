"""What the settings of stage II, of the head on frozen features and of the k-means row mean."""

import copy
import dataclasses

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from methods_tiny import fit
from reference import rectified as reference

from newfound.cluster.kmeans import kmeans
from newfound.config.settings import PlanSettings
from newfound.data.collection import Collection, novel_tasks
from newfound.data.vectors import VectorStore
from newfound.engine.loop import Engine
from newfound.engine.stage import Batch
from newfound.methods.apl_features.headtraining import HeadTraining
from newfound.methods.kmeans import KMeans, KMeansSettings
from newfound.methods.parts.supervised import Supervised
from newfound.model import Encoder
from newfound.nets.heads import CosineClassifier, Whitened
from newfound.plan.recipe import resolve_settings
from newfound.views.crop import PadCropFlip

N_LABELLED, N_KNOWN, N_NOVEL = 120, 5, 5


def begun_stages(monkeypatch, digits, **changes):
    """The outcome of a run, and the iterations of its stage II as they were before their first step."""
    stages, train = [], Engine.train

    def keep(engine, stage):
        if stage.name.startswith("stage2"):
            stages.append(copy.deepcopy(stage))
        train(engine, stage)

    monkeypatch.setattr(Engine, "train", keep)
    return fit(digits, **{"stage1__epochs": 1} | changes), stages


def make_head_training(collection, vectors, clusters, **changes):
    """Stage II on given features before its first epoch, with a linear layer that changes nothing."""
    torch.manual_seed(0)
    settings = resolve_settings(
        "apl-features", "apl-features", {name.replace("__", "."): v for name, v in changes.items()}
    )
    width, classes = vectors.shape[1], len(collection.classes) + collection.n_novel
    project = Whitened(width, width)
    with torch.no_grad():
        project.linear.weight.copy_(torch.eye(width))
    head = CosineClassifier(width, classes)
    return HeadTraining(project, head, VectorStore(vectors), clusters, collection, settings)


def make_supervised(digits, **changes):
    """Stage I of the k-means row."""
    torch.manual_seed(0)
    encoder = Encoder("tiny", 1, 8, torch.tensor([0.3]), torch.tensor([0.4]))
    chosen = dataclasses.replace(KMeansSettings(), **changes)
    views = PadCropFlip(chosen.views.pad, chosen.views.flip, chosen.views.fill)
    head = torch.nn.Linear(encoder.width, len(digits.classes))
    return Supervised("stage1", encoder, head, digits, chosen.stage1, views)


def start_epoch(stage, epoch=0):
    stage.before_epoch(epoch, None)


def batch_of(stage, images, labels):
    index = stage.sampler.epoch(torch.Generator().manual_seed(0))[0]
    drawn = stage.views.draw(torch.Generator().manual_seed(0), len(index), torch.tensor(0))
    views = stage.views.apply(images[index], drawn)
    return Batch(views, torch.from_numpy(labels)[index], index, stage.sampler.n_known)


# Prototypical self-training


def unit_means(features, labels, n):
    """One category after the other."""
    rows = [sum((f / f.norm() for f in features[labels == c]), torch.zeros(features.shape[1])) for c in range(n)]
    return torch.stack([row / row.norm() for row in rows])


def test_unlabelled_images_weigh_their_cosine_to_their_prototype(digits, monkeypatch):
    outcome, (first, second) = begun_stages(monkeypatch, digits)
    features = outcome.features_before_stage2
    means = unit_means(features, first.labels, N_KNOWN + N_NOVEL)
    expected = (F.normalize(features) * means[first.labels]).sum(1).clamp(0, 1)
    expected[:N_LABELLED] = 1
    torch.testing.assert_close(first.weights, expected)
    assert outcome.figures["mean_weight"] == pytest.approx(float(second.weights[N_LABELLED:].mean()))


@pytest.mark.usefixtures("as_found")
def test_an_iteration_learns_from_what_the_one_before_predicts(digits, monkeypatch):
    outcome, (first, second) = begun_stages(monkeypatch, digits, stage2__lr=0.5)
    assert first.labels[N_LABELLED:].tolist() == outcome.earlier["stage1"].tolist()
    assert second.labels[N_LABELLED:].tolist() == outcome.earlier["stage2-1"].tolist()
    assert (first.labels != second.labels).any()
    engine = Engine(digits, torch.device("cpu"))
    features = engine.features(second.encoder.eval(), engine.train_images, title="")
    means = unit_means(features, second.labels, N_KNOWN + N_NOVEL)
    expected = (F.normalize(features) * means[second.labels]).sum(1).clamp(0, 1)
    torch.testing.assert_close(second.weights[N_LABELLED:], expected[N_LABELLED:], rtol=1e-4, atol=1e-5)
    predicted = N_KNOWN + second.head(features)[N_LABELLED:, N_KNOWN:].argmax(1)
    assert predicted.tolist() == outcome.earlier["stage2-1"].tolist()


@pytest.mark.parametrize("iterations", [0, 1, 3])
def test_so_many_iterations_are_made(digits, monkeypatch, iterations):
    outcome, stages = begun_stages(monkeypatch, digits, selftraining__iterations=iterations)
    assert [stage.name for stage in stages] == [f"stage2-{i + 1}" for i in range(iterations)]
    assert list(outcome.earlier) == ["stage1", "online", *[stage.name for stage in stages]]
    assert outcome.assignments.tolist() == list(outcome.earlier.values())[-1 if iterations else 0].tolist()


def test_the_encoder_learns_at_its_share_of_the_classifiers_rate(digits, monkeypatch):
    _, (stage, _) = begun_stages(monkeypatch, digits, selftraining__backbone_lr=0.3)
    rates = {id(p): group.get("lr_scale", 1.0) for group in stage.parameter_groups() for p in group["params"]}
    assert {rates[id(p)] for p in stage.encoder.parameters()} == {0.3}
    assert {rates[id(p)] for p in stage.head.parameters()} == {1.0}
    assert len(rates) == len(list(stage.parameters()))


@pytest.mark.parametrize("kind", ["linear", "cosine"])
def test_the_loss_is_the_rectified_cross_entropy_of_two_whole_views(digits, monkeypatch, kind):
    _, (stage,) = begun_stages(monkeypatch, digits, classifier=kind, selftraining__iterations=1)
    batch = batch_of(stage.train(), digits.train.images, digits.labels)
    assert batch.views.whole.shape[:2] == (2, 32)
    assert len(batch.views.extra) == 0
    images, index = batch.views.whole.flatten(0, 1), batch.index.repeat(2)
    twin = copy.deepcopy(stage)
    logits = twin.head(twin.encoder(images)).double()
    expected = reference.rectified_cross_entropy(logits, stage.labels[index], stage.weights[index].double())
    parts = stage.step(batch, torch.tensor(0))
    torch.testing.assert_close(parts["loss"].double(), expected, rtol=1e-4, atol=1e-6)
    right = (logits.argmax(1) == stage.labels[index]).float().mean()
    assert float(parts["agreement"]) == pytest.approx(float(right))
    assert float(parts["weight"]) == pytest.approx(float(stage.weights[index].mean()))


@pytest.mark.parametrize("kind", ["linear", "cosine"])
def test_the_model_says_what_encoder_and_classifier_say(digits, monkeypatch, kind):
    stages, train = [], Engine.train
    monkeypatch.setattr(Engine, "train", lambda engine, stage: (train(engine, stage), stages.append(stage)))
    outcome = fit(digits, stage1__epochs=1, classifier=kind)
    last, model = stages[-1], outcome.model.eval()
    images = digits.train.images
    with torch.no_grad():
        logits = last.head(last.encoder(images))
        torch.testing.assert_close(model(images), logits, rtol=1e-4, atol=1e-4)
        among = logits[N_LABELLED:, N_KNOWN:].softmax(1)
    assert outcome.assignments.tolist() == (N_KNOWN + among.argmax(1)).tolist()
    np.testing.assert_allclose(outcome.confidence, among.max(1).values, rtol=1e-3)
    torch.testing.assert_close(outcome.features, model.features(images), rtol=1e-4, atol=1e-5)


# A head on frozen features


@pytest.fixture
def vectors():
    """Two known categories and three found ones in 6 dimensions, of unequal size and not quite apart."""
    rng = np.random.default_rng(0)
    truth = np.repeat(np.arange(5), [10, 8, 20, 9, 5])
    features = torch.from_numpy(2 * np.eye(6)[truth] + rng.normal(0, 0.8, (52, 6))).float()
    labels = np.where(truth < 2, truth, -1)
    collection = Collection(VectorStore(features), labels, ("a", "b"), novel_tasks(2, ("", 3, np.arange(18, 52))))
    return collection, features, torch.from_numpy(truth[18:] - 2)


def test_soft_labels_and_weights_come_from_the_means_of_the_labels_before(vectors):
    collection, features, clusters = vectors
    stage = make_head_training(collection, features, clusters, epsilon=0.3)
    assert (stage.weights[:18] == 1).all()
    start_epoch(stage)
    unit = F.normalize(features[18:])
    cosines = unit @ unit_means(features[18:], clusters, 3).T
    soft = torch.stack([(row / 0.3).exp() / (row / 0.3).exp().sum() for row in cosines])
    torch.testing.assert_close(stage.targets[18:, 2:], soft, rtol=1e-4, atol=1e-5)
    assert (stage.targets[18:, :2] == 0).all()
    assert torch.equal(stage.targets[:18], F.one_hot(torch.from_numpy(collection.labels[:18]), 5).float())
    hard = soft.argmax(1)
    assert torch.equal(stage.found, hard)
    assert (hard != clusters).any()
    own = (unit * unit_means(features[18:], hard, 3)[hard]).sum(1).clamp(0, 1)
    torch.testing.assert_close(stage.weights[18:], own)
    assert (stage.weights[:18] == 1).all()


def test_the_head_learns_by_the_rectified_cross_entropy_of_soft_labels(vectors):
    collection, features, clusters = vectors
    stage = make_head_training(collection, features, clusters, dropout=0.0, stage2__batch=20, labelled_share=0.25)
    start_epoch(stage)
    batch = batch_of(stage.train(), stage.inputs.images, collection.labels)
    assert int((batch.index < 18).sum()) == 5
    parts = stage.step(batch, torch.tensor(0))
    logits = 10 * F.normalize(features[batch.index]) @ F.normalize(stage.head.weight).T
    targets, weights = stage.targets[batch.index], stage.weights[batch.index]
    expected = reference.rectified_cross_entropy(logits, targets, weights)
    torch.testing.assert_close(parts["loss"], expected)
    right = (logits.argmax(1) == targets.argmax(1)).float().mean()
    assert float(parts["agreement"]) == pytest.approx(float(right))
    assert float(parts["weight"]) == pytest.approx(float(weights.mean()))


def test_dropout_leaves_its_share_of_the_features_out(vectors):
    collection, features, clusters = vectors
    stage = make_head_training(collection, features, clusters, dropout=0.7)
    drawn = stage.views.draw(torch.Generator().manual_seed(0), 52, torch.tensor(0))
    seen = stage.views.apply(stage.inputs.images, drawn)
    assert float((seen == 0).float().mean()) == pytest.approx(0.7, abs=0.08)


# The k-means row


def test_the_k_means_row_learns_a_classifier_of_labelled_images_alone(digits):
    stage = make_supervised(digits, stage1=PlanSettings(epochs=1, batch=32)).train()
    twin = copy.deepcopy(stage)
    batch = batch_of(stage, digits.train.images, digits.labels)
    assert (batch.index < N_LABELLED).all()
    parts = stage.step(batch, torch.tensor(0))
    logits = twin.head(twin.encoder(batch.views))
    assert logits.shape == (32, N_KNOWN)
    torch.testing.assert_close(parts["loss"], F.cross_entropy(logits, batch.labels))
    assert float(parts["accuracy"]) == pytest.approx(float((logits.argmax(1) == batch.labels).float().mean()))


@pytest.mark.parametrize("unit", [False, True])
def test_the_k_means_row_clusters_the_features_of_the_network_that_learnt(digits, monkeypatch, unit):
    stages, train = [], Engine.train
    monkeypatch.setattr(Engine, "train", lambda engine, stage: (train(engine, stage), stages.append(stage)))
    settings = resolve_settings("kmeans", "kmeans-digits", {"stage1.epochs": 1, "cluster.normalise": unit})
    engine = Engine(digits, torch.device("cpu"))
    outcome = KMeans(settings).fit(digits, engine)
    (stage,) = stages
    before = make_supervised(digits).encoder.net
    assert any(not torch.equal(a, b) for a, b in zip(stage.encoder.net.parameters(), before.parameters(), strict=True))
    features = engine.features(stage.encoder, engine.train_images, title="")
    features = F.normalize(features) if unit else features
    torch.testing.assert_close(outcome.features, features)
    clusters = kmeans(features[N_LABELLED:], N_NOVEL, starts=settings.cluster.starts, seed=0)
    assert outcome.assignments.tolist() == (N_KNOWN + clusters.labels).tolist()
    assert outcome.figures["inertia"] == pytest.approx(clusters.inertia)
    logits = outcome.model.eval()(digits.train.images[N_LABELLED:]).detach()
    own = logits[:, N_KNOWN:].softmax(1).gather(1, clusters.labels[:, None])[:, 0]
    np.testing.assert_allclose(outcome.confidence, own, rtol=1e-3)
