"""What many clusterings agree on."""

import torch

from newfound.cluster.consensus import consensus
from newfound.cluster.kmeans import kmeans
from newfound.evaluate.accuracy import clustering_accuracy


def directions(seed: int, spread: float, k: int = 12, each: int = 25) -> tuple[torch.Tensor, torch.Tensor]:
    """Features [k each, 16] around k directions, and which they belong to."""
    generator = torch.Generator().manual_seed(seed)
    centres = torch.nn.functional.normalize(torch.randn(k, 16, generator=generator))
    truth = torch.arange(k).repeat_interleave(each)
    return 3 * (centres[truth] + spread * torch.randn(len(truth), 16, generator=generator)), truth


def test_clear_groups_are_found_whatever_their_length():
    features, truth = directions(0, 0.02)
    features = features * (1 + torch.arange(len(features)) % 5)[:, None]
    found = consensus(features, 12)
    assert clustering_accuracy(found.labels.numpy(), truth.numpy()) == 1
    assert found.centres.norm(dim=1).max() <= 1


def test_it_depends_less_on_where_it_begins_than_one_clustering():
    once, agreed = [], []
    for seed in range(6):
        features, truth = directions(seed, 0.15)
        unit = torch.nn.functional.normalize(features)
        once.append(clustering_accuracy(kmeans(unit, 12, starts=1, seed=seed).labels.numpy(), truth.numpy()))
        agreed.append(clustering_accuracy(consensus(features, 12, seed=seed).labels.numpy(), truth.numpy()))
    assert sum(agreed) > sum(once) + 0.1


def test_the_same_seed_gives_the_same_clusters():
    features, _ = directions(1, 0.2)
    assert torch.equal(consensus(features, 5, seed=3).labels, consensus(features, 5, seed=3).labels)


def test_one_cluster_and_as_many_as_features_work():
    features, _ = directions(2, 0.1, k=3, each=3)
    assert consensus(features, 1).labels.unique().tolist() == [0]
    assert len(consensus(features, 9).labels) == 9


def test_known_categories_are_the_first_clusters_and_keep_their_labelled_features():
    features, truth = directions(3, 0.1, k=6, each=20)
    order = torch.cat([torch.arange(120)[(truth < 3) & (torch.arange(120) % 2 == 0)]])
    rest = torch.tensor(sorted(set(range(120)) - set(order.tolist())))
    rows = torch.cat([order, rest])
    found = consensus(features[rows], 6, known=truth[order]).labels
    assert torch.equal(found[:30], truth[order])
    assert clustering_accuracy(found.numpy(), truth[rows].numpy()) > 0.97
    old = truth[rest] < 3
    assert (found[30:][old] == truth[rest][old]).float().mean() > 0.95
