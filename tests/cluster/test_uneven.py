"""Clusters for categories that differ in size."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.cluster import AgglomerativeClustering
from sklearn.metrics import silhouette_samples

from newfound.cluster.consensus import consensus
from newfound.cluster.kmeans import kmeans
from newfound.cluster.uneven import merged, silhouette, uneven
from newfound.evaluate.accuracy import clustering_accuracy


def shuffled(seed: int, sizes: tuple[int, ...], spread: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Features [N, 24] around a direction for each of the sizes, and which they belong to."""
    generator = torch.Generator().manual_seed(seed)
    truth = torch.cat([torch.full((n,), i) for i, n in enumerate(sizes)])
    centres = F.normalize(torch.randn(len(sizes), 24, generator=generator))
    features = centres[truth] + spread * torch.randn(len(truth), 24, generator=generator)
    order = torch.randperm(len(truth), generator=generator)
    return features[order], truth[order]


def accuracy(found, truth) -> float:
    return clustering_accuracy(found.labels.numpy(), truth.numpy())


def test_a_category_ten_times_as_large_stays_whole_where_clusterings_agree_to_cut_it():
    agreed, found = [], []
    for seed in range(5):
        features, truth = shuffled(seed, (200, 20, 20, 20, 20), 0.22)
        agreed.append(accuracy(consensus(features, 5, seed=seed), truth))
        found.append(accuracy(uneven(features, 5, seed=seed), truth))
    assert np.mean(found) > np.mean(agreed) + 0.15


def test_equal_categories_are_what_clusterings_agree_on():
    same = 0
    for seed in range(5):
        features, _ = shuffled(seed, (40,) * 6, 0.2)
        same += torch.equal(uneven(features, 6, seed=seed).labels, consensus(features, 6, seed=seed).labels)
    assert same >= 4


@pytest.mark.parametrize(("k", "pieces"), [(3, 9), (4, 8), (2, 60)])
def test_pieces_are_merged_by_the_mean_cosine_of_their_members(k, pieces):
    """As scikit-learn's average linkage does, which begins with single features: it is given the pieces by distances of
    0 within and, between, the means over all pairs of members, each piece as often as it has members."""
    features, _ = shuffled(1, (30, 14, 8, 8), 0.3)
    unit = F.normalize(features)
    piece = kmeans(unit, min(pieces, 30), starts=20, seed=0).labels
    members = F.one_hot(piece).float()
    sums = members.T @ unit
    between = 1 - (sums @ sums.T) / members.sum(0)[:, None] / members.sum(0)
    distance = between[piece][:, piece]
    distance[piece[:, None] == piece] = 0
    expected = AgglomerativeClustering(k, metric="precomputed", linkage="average").fit_predict(distance.numpy())
    assert clustering_accuracy(merged(unit, k, pieces).numpy(), expected) == 1


def test_the_silhouette_is_scikit_learn_s_averaged_over_clusters():
    features, _ = shuffled(2, (30, 10, 5, 1), 0.3)
    labels = torch.randint(0, 5, (46,), generator=torch.Generator().manual_seed(0))
    labels[0] = 5  # a cluster of one
    unit = F.normalize(features.double())
    each = silhouette_samples(unit.numpy(), labels.numpy(), metric="cosine")
    expected = np.mean([each[labels.numpy() == c].mean() for c in range(6)])
    assert silhouette(unit, labels, 8) == pytest.approx(expected, abs=1e-9)


def test_one_cluster_and_as_many_as_features_work():
    features, _ = shuffled(3, (3, 3, 3), 0.1)
    assert uneven(features, 1).labels.unique().tolist() == [0]
    assert len(uneven(features, 9).labels) == 9
    assert len(uneven(features[:1].repeat(5, 1), 3).labels) == 5


def test_the_same_seed_gives_the_same_clusters():
    features, _ = shuffled(4, (60, 6, 6), 0.25)
    assert torch.equal(uneven(features, 3, seed=2).labels, uneven(features, 3, seed=2).labels)
