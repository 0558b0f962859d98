import warnings

import numpy as np
import pytest
import torch
from sklearn.cluster import SpectralClustering
from sklearn.datasets import load_digits, make_circles
from sklearn.metrics import adjusted_rand_score

from newfound.cluster.spectral import spectral
from newfound.evaluate.accuracy import clustering_accuracy


@pytest.fixture(autouse=True)
def _no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def odd_digits():
    digits = load_digits()
    odd = digits.target % 2 == 1
    return torch.tensor(digits.data[odd]), digits.target[odd]


def test_the_odd_digits_are_clustered_as_well_as_raw_pixels_allow():
    features, truth = odd_digits()
    assert 0.74 <= clustering_accuracy(spectral(features, 5, metric="euclidean").labels.numpy(), truth) <= 0.79
    assert 0.74 <= clustering_accuracy(spectral(features, 5).labels.numpy(), truth) <= 0.79


def test_a_connected_graph_is_clustered_as_by_scikit_learn():
    features = torch.tensor(np.random.default_rng(0).normal(size=(300, 2)))
    expected = SpectralClustering(4, affinity="nearest_neighbors", random_state=0).fit_predict(features.numpy())
    found = spectral(features, 4, metric="euclidean").labels.numpy()
    assert adjusted_rand_score(found, expected) == 1


def test_rings_that_no_centre_can_part_are_parted():
    points, ring = make_circles(400, factor=0.3, noise=0.03, random_state=0)
    found = spectral(torch.tensor(points), 2, metric="euclidean")
    assert clustering_accuracy(found.labels.numpy(), ring) == 1


def test_the_cosine_metric_looks_at_directions_only():
    features, _ = odd_digits()
    lengths = torch.rand(len(features), 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64) + 0.01
    assert torch.equal(spectral(features, 5).labels, spectral(features * lengths, 5).labels)
    assert not torch.equal(spectral(features, 5).labels, spectral(features, 5, metric="euclidean").labels)


def test_the_same_seed_gives_the_same_clustering():
    features, _ = odd_digits()
    first, second = spectral(features, 7, seed=4), spectral(features, 7, seed=4)
    assert torch.equal(first.labels, second.labels)
    assert torch.equal(first.centres, second.centres)


def groups(places, each=30):
    generator = torch.Generator().manual_seed(0)
    return torch.tensor(places).repeat_interleave(each)[:, None] + 0.1 * torch.randn(
        each * len(places), 3, generator=generator
    )


def test_parts_of_the_graph_are_clusters():
    found = spectral(groups([0.0, 10.0, 30.0]), 3, metric="euclidean")
    assert found.labels.tolist() == [0] * 30 + [1] * 30 + [2] * 30


def test_more_parts_than_clusters_are_merged_by_nearness():
    found = spectral(groups([0.0, 2.0, 30.0, 32.0, 34.0]), 2, metric="euclidean")
    assert found.labels.tolist() == [1] * 60 + [0] * 90


def test_equal_features_stay_together_while_there_are_clusters_enough_for_all():
    values = torch.eye(4).repeat_interleave(30, dim=0)
    assert spectral(values, 4).labels.tolist() == [i // 30 for i in range(120)]


def test_clusters_are_numbered_by_size_and_their_centres_are_means():
    features = torch.cat([groups([0.0], 20), groups([10.0], 50), groups([20.0], 30)])
    found = spectral(features, 3, metric="euclidean")
    assert found.labels.tolist() == [2] * 20 + [0] * 50 + [1] * 30
    for c, members in enumerate([features[20:70], features[70:], features[:20]]):
        torch.testing.assert_close(found.centres[c], members.mean(0))
    assert found.inertia == pytest.approx((features - found.centres[found.labels]).square().sum().item(), rel=1e-5)


@pytest.mark.parametrize("n", [1, 2, 3, 12])
def test_every_number_of_clusters_up_to_the_number_of_features_is_possible(n):
    features = torch.randn(n, 3, generator=torch.Generator().manual_seed(1))
    for k in range(1, n + 1):
        assert (spectral(features, k).labels.bincount(minlength=k) > 0).all()


def test_a_feature_of_length_zero_has_no_direction_and_does_no_harm():
    features = groups([1.0, -1.0])
    features[5] = 0
    found = spectral(features, 2)
    assert torch.isfinite(found.centres).all()
    assert adjusted_rand_score(found.labels[6:].numpy(), [0] * 24 + [1] * 30) == 1


def test_impossible_requests_are_refused():
    features = torch.zeros(5, 2)
    with pytest.raises(ValueError, match="cannot make 6 clusters of 5 features"):
        spectral(features, 6)
    with pytest.raises(ValueError, match="choose cosine or euclidean"):
        spectral(features, 2, metric="manhattan")
    features[0, 0] = float("nan")
    with pytest.raises(ValueError, match="not a number"):
        spectral(features, 2)
