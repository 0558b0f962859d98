import numpy as np
import pytest
import torch
import torch.nn.functional as F
from reference import meanshift as reference

from newfound.count.owned import _of_fold, _passing, by_owned, candidates
from newfound.count.published import by_accuracy, by_probes, by_shift
from newfound.count.sample import Sample, drawn_rows, folds, limited
from newfound.count.tree import Tree, mean_shift


def blobs(n_known, n_novel, *, each=30, pile=30, d=24, spread=1.0, seed=0):
    """Features of blobs far apart, with the labels of the known ones, which come first."""
    rng = np.random.default_rng(seed)
    centres = F.normalize(torch.from_numpy(rng.normal(size=(n_known + n_novel, d)))) * 10
    sizes = [each] * n_known + [pile] * n_novel
    truth = np.repeat(np.arange(n_known + n_novel), sizes)
    features = centres[truth] + spread * torch.from_numpy(rng.normal(size=(len(truth), d)))
    return features.float(), torch.from_numpy(truth[: n_known * each])


def sample(*sizes, **options):
    return limited(*blobs(*sizes, **options), 0)


@pytest.mark.parametrize("rounds", [1, 3])
def test_the_mean_shift_goes_the_way_of_plain_loops(rounds):
    points = F.normalize(torch.from_numpy(np.random.default_rng(0).normal(size=(40, 5))))
    expected = reference.mean_shift(points.numpy(), rounds, neighbours=8)
    np.testing.assert_allclose(mean_shift(points, rounds).numpy(), expected, atol=1e-12)


def test_few_points_have_fewer_neighbours():
    points = F.normalize(torch.eye(3) + 0.1)
    expected = reference.mean_shift(points.double().numpy(), 1, neighbours=2)
    np.testing.assert_allclose(mean_shift(points, 1).numpy(), expected, atol=1e-6)


@pytest.mark.parametrize("k", [1, 2, 5, 9])
def test_the_tree_joins_as_wards_rule_says(k):
    points = torch.from_numpy(np.random.default_rng(1).normal(size=(20, 3)))
    labels = Tree(points).cut(k)
    found = {frozenset(np.flatnonzero(labels == c).tolist()) for c in range(k)}
    assert found == {frozenset(group) for group in reference.ward(points.numpy(), k)}


@pytest.mark.parametrize(("known", "novel"), [(6, 3), (5, 8), (2, 4), (1, 3)])
def test_known_categories_own_one_cluster_at_the_number_of_blobs(known, novel):
    assert by_owned(sample(known, novel), 60, 0).estimate == pytest.approx(novel, abs=0.5)


@pytest.mark.parametrize(("each", "pile"), [(12, 48), (48, 12)])
def test_categories_that_differ_in_size_from_the_known_ones_are_counted_too(each, pile):
    assert by_owned(sample(6, 6, each=each, pile=pile), 70, 0).estimate == pytest.approx(6, abs=1)


@pytest.mark.parametrize("way", [by_probes, by_accuracy, by_shift])
def test_published_ways_count_blobs_roughly(way):
    assert 3 <= way(sample(6, 5), 30, 0) <= 9


def test_a_hidden_category_owns_its_share_of_the_clusters_it_is_in():
    fold = next(folds(sample(3, 2), np.arange(3)))
    owned, gaps = _of_fold(fold, np.array([1, 2, 20]))
    assert gaps.argmax() + 1 == 2
    assert owned.shape == (1, 3)
    assert owned[0, 0] <= 1 + 1e-9
    assert owned[0, 1] == pytest.approx(1)
    assert owned[0, 2] > 2


def test_in_turns_every_known_category_is_hidden_once_and_labels_of_hidden_ones_are_not_seen():
    some = sample(7, 2)
    found = list(folds(some, np.arange(7)))
    hidden = [set(np.unique(fold.hidden).tolist()) for fold in found]
    assert sorted(c for categories in hidden for c in categories) == list(range(7))
    for fold, categories in zip(found, hidden, strict=True):
        assert len(torch.unique(fold.labels)) == 7 - len(categories)
        assert len(fold.features) == len(fold.hidden) + len(some.pile)


@pytest.mark.parametrize(
    ("clusters", "expected"), [([0.5, 0.8, 1.2], 2.5), ([1.0, 2.0, 3.0], 1.0), ([0.2, 0.4, 0.5], 3)]
)
def test_the_curve_is_read_where_it_passes_one(clusters, expected):
    assert _passing(np.array([1, 2, 3]), np.array(clusters), np.zeros(3)) == pytest.approx(expected, abs=0.05)


def test_where_the_curve_stays_at_one_the_widest_gap_decides():
    numbers, clusters = np.arange(1, 9), np.array([0.9, 1, 1, 1, 1, 1, 1.2, 1.4])
    assert _passing(numbers, clusters, np.array([9, 0, 0, 1, 0, 0, 0, 9])) == 4


def test_a_gap_is_where_joins_become_dear():
    tree = Tree(torch.tensor([[0.0], [1.0], [10.0], [11.0], [50.0], [51.0]]))
    assert tree.gaps(np.arange(2, 6)).argmax() + 2 == 3


def test_numbers_to_try_are_one_to_the_most():
    numbers = candidates(100)
    assert numbers[0] == 1
    assert numbers[-1] == 100
    assert (np.diff(numbers) > 0).all()


def test_a_task_made_of_known_categories_hides_whom_it_was_told_to():
    task = sample(4, 2).of(np.array([2, 0]), np.array([1, 3]))
    assert task.n_known == 2
    assert len(task.pile) == 60
    assert isinstance(task, Sample)


def test_a_large_collection_is_thinned_and_every_category_stays():
    features, labels = blobs(5, 3, each=500, pile=900, d=8)
    some = limited(features, labels, 0)
    assert torch.bincount(some.labels).tolist() == [200] * 5
    assert len(some.pile) == 2000


def test_of_images_that_were_drawn_all_are_drawn_again():
    features, labels = blobs(5, 3, each=500, pile=900, d=8)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    features[: len(labels)], labels = features[order], labels[order]
    rows = drawn_rows(labels, len(features), 0)
    whole = limited(features, labels, 0)
    some = limited(features[rows], labels[rows[rows < len(labels)]], 0)
    assert len(rows) == 3000
    assert torch.equal(some.labels, whole.labels)
    assert torch.equal(some.features, whole.features)
