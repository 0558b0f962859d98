import numpy as np
import pytest
import torch

from newfound.config.settings import ClusterSettings
from newfound.data.collection import UNKNOWN, Collection, novel_tasks
from newfound.data.store import ImageStore
from newfound.engine.loop import Engine
from newfound.methods.parts.clusters import cluster_outcome, nearest_centre
from newfound.methods.parts.tasks import novel_names
from newfound.model import Encoder
from newfound.nets.heads import LinearClassifier


def make_collection(*tasks, classes=("a", "b"), labelled=20):
    n = sum(len(rows) for _, _, rows in tasks)
    labels = np.array([i % len(classes) for i in range(labelled)] + [UNKNOWN] * n)
    return Collection(
        ImageStore(np.zeros((labelled + n, 1, 8, 8), np.uint8)), labels, classes, novel_tasks(len(classes), *tasks)
    )


class Given(Encoder):
    """An encoder that gives these features, whatever the images are."""

    def __init__(self, features):
        super().__init__("tiny", 1, 8, torch.zeros(1), torch.ones(1))
        self.given, self.done = features, 0

    def backbone_features(self, images):
        self.done += len(images)
        return self.given[self.done - len(images) : self.done]


def outcome_of(features, collection, **settings):
    engine = Engine(collection, torch.device("cpu"))
    return cluster_outcome(Given(features), collection, ClusterSettings(**settings), engine, method="kmeans")


def test_the_classifier_chooses_the_nearest_centre():
    rng = np.random.default_rng(0)
    collection = make_collection(("", 2, np.arange(20, 24)))
    head = LinearClassifier(128, 4)
    features = torch.from_numpy(rng.normal(3, 1, (20, 128)).astype(np.float32))
    labels = torch.from_numpy(collection.labels[:20])
    novel = torch.from_numpy(rng.normal(3, 1, (2, 128)).astype(np.float32))
    nearest_centre(head, features, labels, 2, novel)
    means = torch.stack([features[labels == c].mean(0) for c in (0, 1)])
    points = torch.from_numpy(rng.normal(3, 1, (50, 128)).astype(np.float32))
    distance = torch.cdist(points.double(), torch.cat([means, novel]).double()) ** 2
    scatter = torch.stack([(features[i] - means[labels[i]]).square().sum() for i in range(20)]).mean()
    expected = (-distance / scatter).softmax(1).float()
    torch.testing.assert_close(head(points).softmax(1), expected, atol=1e-4, rtol=1e-3)


def test_each_task_is_clustered_by_itself():
    rng = np.random.default_rng(0)
    tasks = ("A", 2, np.arange(20, 40)), ("B", 3, np.arange(40, 70))
    collection = make_collection(*tasks)
    blobs = rng.normal(0, 20, (5, 128))
    truth = np.concatenate([rng.permutation(20) % 2, 2 + rng.permutation(30) % 3])
    features = np.concatenate([rng.normal(0, 1, (20, 128)), blobs[truth] + rng.normal(0, 0.1, (50, 128))])
    outcome = outcome_of(torch.from_numpy(features.astype(np.float32)), collection)
    assert set(outcome.assignments[:20]) == {2, 3}
    assert set(outcome.assignments[20:]) == {4, 5, 6}
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
    collection = make_collection(("", 2, np.arange(20, 220)))
    outcome = outcome_of(torch.from_numpy(rings), collection, algorithm=algorithm)
    agreement = np.mean(outcome.assignments == 2 + np.arange(200) % 2)
    assert (max(agreement, 1 - agreement) > 0.95) == (algorithm == "spectral")


def test_novel_names_carry_their_task_and_never_meet_a_known_name():
    plain = make_collection(("", 12, np.arange(20, 40)), classes=("novel-01", "b"))
    assert novel_names(plain)[0] == "found-novel-01"
    two = make_collection(("A", 1, np.arange(20, 22)), ("B", 2, np.arange(22, 25)))
    assert novel_names(two) == ("A/novel-01", "B/novel-01", "B/novel-02")
