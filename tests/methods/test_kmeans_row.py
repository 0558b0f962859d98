import numpy as np
import pytest
import torch

from newfound.config.settings import Cluster
from newfound.data.collection import UNKNOWN, Collection, Task
from newfound.data.store import ImageStore
from newfound.engine.loop import Engine
from newfound.methods.base import novel_names
from newfound.methods.kmeans import cluster_tasks, nearest_centre
from newfound.model import Encoder, Model


def make_collection(tasks, classes=("a", "b"), labelled=20):
    n = sum(len(task.rows) for task in tasks)
    labels = np.array([i % len(classes) for i in range(labelled)] + [UNKNOWN] * n)
    return Collection(ImageStore(np.zeros((labelled + n, 1, 8, 8), np.uint8)), labels, classes, tasks)


def make_model(collection):
    encoder = Encoder("tiny", 1, 8, torch.zeros(1), torch.ones(1))
    return Model(encoder, collection.classes, novel_names(collection), method="kmeans")


def test_the_classifier_chooses_the_nearest_centre():
    rng = np.random.default_rng(0)
    collection = make_collection((Task("", 2, np.arange(20, 24)),))
    model = make_model(collection)
    features = torch.from_numpy(rng.normal(3, 1, (20, 128)).astype(np.float32))
    labels = torch.from_numpy(collection.labels[:20])
    novel = torch.from_numpy(rng.normal(3, 1, (2, 128)).astype(np.float32))
    nearest_centre(model, features, labels, novel)
    means = torch.stack([features[labels == c].mean(0) for c in (0, 1)])
    points = torch.from_numpy(rng.normal(3, 1, (50, 128)).astype(np.float32))
    distance = torch.cdist(points.double(), torch.cat([means, novel]).double()) ** 2
    scatter = torch.stack([(features[i] - means[labels[i]]).square().sum() for i in range(20)]).mean()
    expected = (-distance / scatter).softmax(1).float()
    torch.testing.assert_close(model.classifier(points).softmax(1), expected, atol=1e-4, rtol=1e-3)


def test_each_task_is_clustered_by_itself():
    rng = np.random.default_rng(0)
    tasks = (Task("A", 2, np.arange(20, 40)), Task("B", 3, np.arange(40, 70)))
    collection = make_collection(tasks)
    blobs = rng.normal(0, 20, (5, 128))
    truth = np.concatenate([rng.permutation(20) % 2, 2 + rng.permutation(30) % 3])
    features = np.concatenate([rng.normal(0, 1, (20, 128)), blobs[truth] + rng.normal(0, 0.1, (50, 128))])
    engine = Engine(collection, torch.device("cpu"))
    features = torch.from_numpy(features.astype(np.float32))
    outcome = cluster_tasks(make_model(collection), features, collection, Cluster(), engine)
    assert set(outcome.assignments[:20]) == {0, 1}
    assert set(outcome.assignments[20:]) == {2, 3, 4}
    assert len(set(zip(outcome.assignments, truth, strict=True))) == 5
    assert (outcome.confidence > 0.9).all()


@pytest.mark.parametrize("algorithm", ["kmeans", "spectral"])
def test_the_algorithm_is_a_setting(algorithm):
    rng = np.random.default_rng(0)
    angle = rng.uniform(0, 2 * np.pi, 200)
    radius = np.where(np.arange(200) % 2, 0.3, 1.5)
    rings = np.zeros((220, 128), np.float32)
    rings[20:, 0], rings[20:, 1] = radius * np.cos(angle), radius * np.sin(angle)
    rings[:20, 2] = rng.normal(0, 1, 20)
    rings[20:, 2] = 1
    collection = make_collection((Task("", 2, np.arange(20, 220)),))
    engine = Engine(collection, torch.device("cpu"))
    settings = Cluster(algorithm=algorithm)
    outcome = cluster_tasks(make_model(collection), torch.from_numpy(rings), collection, settings, engine)
    agreement = np.mean(outcome.assignments == np.arange(200) % 2)
    assert (max(agreement, 1 - agreement) > 0.95) == (algorithm == "spectral")


def test_novel_names_carry_their_task_and_never_meet_a_known_name():
    plain = make_collection((Task("", 12, np.arange(20, 40)),), classes=("novel-01", "b"))
    assert novel_names(plain)[0] == "found-novel-01"
    two = make_collection((Task("A", 1, np.arange(20, 22)), Task("B", 2, np.arange(22, 25))))
    assert novel_names(two) == ("A/novel-01", "B/novel-01", "B/novel-02")
