"""What the method on frozen features hands from one step to the next, and what all methods share."""

import copy
import dataclasses

import embeddings
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from pretrained_package import install

from newfound.cluster.kmeans import kmeans
from newfound.data.collection import Collection, novel_tasks
from newfound.data.store import ImageStore
from newfound.data.vectors import VectorStore
from newfound.engine.loop import Engine
from newfound.methods.apl_features.method import FeatureAPL
from newfound.methods.base import learn_strangeness
from newfound.nets import efficientnet
from newfound.plan.recipe import resolve_settings

N_LABELLED, N_KNOWN, N_NOVEL = 360, 12, 4


def make_collection(test=None):
    features, categories = embeddings.vectors()
    labels = np.where(categories < N_KNOWN, categories, -1)
    classes = tuple(f"c{i}" for i in range(N_KNOWN))
    tasks = novel_tasks(N_KNOWN, ("", N_NOVEL, np.arange(N_LABELLED, len(labels))))
    return Collection(VectorStore(torch.from_numpy(features)), labels, classes, tasks, test=test)


def fit(monkeypatch, collection, **changes):
    """The outcome, and the stage as it was before its first step."""
    stages, train = [], Engine.train

    def keep(engine, stage):
        stages.append(copy.deepcopy(stage))
        train(engine, stage)

    monkeypatch.setattr(Engine, "train", keep)
    settings = {"stage2.epochs": 2} | {name.replace("__", "."): value for name, value in changes.items()}
    engine = Engine(collection, torch.device("cpu"))
    outcome = FeatureAPL(resolve_settings("apl-features", "apl-features", settings)).fit(collection, engine)
    return outcome, stages[0], engine


def unit_means(features, labels, n):
    rows = torch.stack([F.normalize(features[labels == c]).sum(0) for c in range(n)])
    return F.normalize(rows)


def test_labels_begin_as_clusters_and_the_classifier_as_the_means_of_whitened_features(monkeypatch):
    collection = make_collection()
    outcome, stage, _ = fit(monkeypatch, collection, whitening__dimension=8)
    clusters = torch.from_numpy(outcome.earlier["clusters"])
    assert torch.equal(stage.found, clusters - N_KNOWN)
    white = F.normalize(stage.linear(stage.inputs.images.flatten(1))).detach()
    assert white.shape == (480, 8)
    torch.testing.assert_close(outcome.features_before_stage2, white)
    labels = torch.cat([torch.from_numpy(collection.labels[:N_LABELLED]), clusters])
    torch.testing.assert_close(stage.head.rows.detach(), unit_means(white, labels, N_KNOWN + N_NOVEL))


def test_the_outcome_is_what_the_model_says_of_the_pile(monkeypatch):
    collection = make_collection()
    outcome, _, _ = fit(monkeypatch, collection)
    images = collection.train.images
    with torch.no_grad():
        features, logits = outcome.model.eval().features(images), outcome.model(images)
    torch.testing.assert_close(outcome.features, features, rtol=1e-4, atol=1e-5)
    among = logits[N_LABELLED:, N_KNOWN:].softmax(1)
    assert outcome.assignments.tolist() == (N_KNOWN + among.argmax(1)).tolist()
    np.testing.assert_allclose(outcome.confidence, among.max(1).values, rtol=1e-3)
    rows = torch.linalg.lstsq(features.double(), logits.double()).solution.T
    torch.testing.assert_close(0.1 * rows.norm(dim=1), torch.ones(16, dtype=torch.float64), rtol=1e-3, atol=0)
    assert torch.equal(outcome.backbone_features, images.flatten(1))
    assert outcome.backbone_unchanged


@pytest.mark.parametrize("algorithm", ["kmeans", "uneven"])
def test_clusters_of_every_step_are_kept(monkeypatch, algorithm):
    collection = make_collection()
    outcome, stage, _ = fit(monkeypatch, collection, cluster__algorithm=algorithm)
    steps = ["plain", "whitened"] if algorithm == "kmeans" else ["plain", "whitened", "clusters"]
    assert list(outcome.earlier) == steps
    assert stage.found.tolist() == (outcome.earlier[steps[-1]] - N_KNOWN).tolist()
    pile = {"plain": collection.train.images.flatten(1), "whitened": outcome.features_before_stage2}
    for name, features in pile.items():
        found = kmeans(features[N_LABELLED:], N_NOVEL, starts=20, seed=0).labels
        assert outcome.earlier[name].tolist() == (N_KNOWN + found).tolist(), name


@pytest.mark.parametrize("blocks", [0, 1])
def test_blocks_of_the_network_are_tuned_where_it_is_asked_for(monkeypatch, tmp_path, blocks):
    monkeypatch.setitem(efficientnet.SCALES, 0, (1.0, 1.0, 32))
    install(tmp_path, monkeypatch)
    torch.manual_seed(0)
    images = ImageStore(torch.randint(0, 256, (10, 3, 32, 32), dtype=torch.uint8))
    labels = np.array([0, 0, 1, 1, *[-1] * 6])
    collection = Collection(images, labels, ("a", "b"), novel_tasks(2, ("", 2, np.arange(4, 10))))
    changes = {"tune__blocks": blocks, "tune__epochs": 1, "tune__batch": 5, "tune__lr": 0.01}
    outcome, _, engine = fit(monkeypatch, collection, **changes)
    assert ("frozen" in outcome.earlier) == (not outcome.backbone_unchanged) == bool(blocks)
    model = outcome.model.eval()
    now = engine.features(model, engine.train_images, title="", of=model.encoder.backbone_features)
    assert torch.allclose(now, outcome.backbone_features, rtol=1e-3, atol=1e-4) == (not blocks)
    with torch.no_grad():
        logits = model.logits(model.features(images.images[4:]))[:, 2:]
    assert outcome.assignments.tolist() == (2 + logits.argmax(1)).tolist()
    np.testing.assert_allclose(outcome.confidence, logits.softmax(1).amax(1), rtol=1e-3)
    torch.testing.assert_close(outcome.features, model.features(images.images).detach(), rtol=1e-3, atol=1e-4)


def test_whitened_features_have_no_more_numbers_than_the_images_allow(monkeypatch):
    assert fit(monkeypatch, make_collection(), whitening__dimension=100)[0].features.shape[1] == embeddings.WIDTH
    few = make_collection()
    rows = np.concatenate([np.arange(0, 360, 60), N_LABELLED + np.arange(0, 120, 30)])
    labels = np.array([0, 0, 1, 1, 2, 2, -1, -1, -1, -1])
    small = Collection(few.train.take(rows), labels, ("a", "b", "c"), novel_tasks(3, ("", 2, np.arange(6, 10))))
    assert fit(monkeypatch, small)[0].features.shape[1] == 9


def test_strangeness_is_learnt_from_all_training_images_and_measured_on_the_test_images(monkeypatch):
    features = torch.from_numpy(embeddings.vectors(seed=1)[0][:50])
    collection = make_collection(test=VectorStore(features))
    outcome, _, engine = fit(monkeypatch, collection)
    test_features = learn_strangeness(outcome, collection, engine)
    model = outcome.model
    torch.testing.assert_close(test_features, model.features(collection.test.images).detach())
    assert model.strangeness_of_backbone
    assert len(model.strangeness.exemplars) == 480
    torch.testing.assert_close(model.strangeness.exemplars, F.normalize(outcome.backbone_features))
    # Each exemplar's spacing is its category's: the given one, or the found one after the known ones.
    categories = np.concatenate([collection.labels[:N_LABELLED], outcome.assignments])
    for category in range(N_KNOWN + N_NOVEL):
        assert len(model.strangeness.spacing[torch.from_numpy(categories == category)].unique()) == 1
    assert len(model.strangeness.spacing.unique()) == N_KNOWN + N_NOVEL
    strange = model.eval().judge(collection.test.images)[:, -1].sort().values
    torch.testing.assert_close(model.strangeness.held_out, strange)


def test_without_features_that_no_label_touched_strangeness_is_told_from_the_models(monkeypatch):
    collection = make_collection()
    outcome, _, engine = fit(monkeypatch, collection)
    for known in (outcome.features, None):  # where they are not kept they are read again
        given = dataclasses.replace(outcome, backbone_unchanged=False, features=known)
        learn_strangeness(given, collection, engine)
        assert not outcome.model.strangeness_of_backbone
        exemplars = outcome.model.strangeness.exemplars
        torch.testing.assert_close(exemplars, outcome.features, rtol=1e-4, atol=1e-5)
        assert len(outcome.model.strangeness.held_out) == 0
