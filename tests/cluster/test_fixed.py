import numpy as np
import pytest
import torch
from reference import lloyd as reference

from newfound.cluster.fixed import kmeans_fixed
from newfound.cluster.kmeans import kmeans, lloyd, plus_plus
from newfound.evaluate.accuracy import clustering_accuracy


def blobs(seed, sizes, n_known, labelled=0.5, d=8, spread=1.0, apart=6.0):
    """Features whose first rows are labelled: a share of the first n_known blobs; the labels; the truth of all."""
    rng = np.random.default_rng(seed)
    centres = apart * rng.normal(size=(len(sizes), d)) / np.sqrt(d)
    truth = np.repeat(np.arange(len(sizes)), sizes)
    known = (truth < n_known) & (rng.random(len(truth)) < labelled)
    truth = np.concatenate([truth[known], rng.permutation(truth[~known])])
    features = torch.tensor(centres[truth] + spread * rng.normal(size=(len(truth), d)))
    return features, torch.tensor(truth[: known.sum()]), truth


@pytest.mark.parametrize("seed", range(4))
def test_one_start_goes_the_way_of_plain_lloyd_with_fixed_members(seed):
    features, fixed, _ = blobs(seed, [20, 30, 40, 30], 2, apart=3.0)
    n = len(fixed)
    begin = torch.stack([features[:n][fixed == c].mean(0) for c in range(2)])
    initial = torch.cat([begin, features[-2:]])
    sums = torch.stack([features[:n][fixed == c].sum(0) for c in range(4)])
    counts = fixed.bincount(minlength=4).double()
    labels, centres = lloyd(features[n:], initial[None], iterations=300, tolerance=0.0, fixed=(sums, counts))
    expected_labels, expected_centres = reference.lloyd(features.tolist(), initial.tolist(), fixed=fixed.tolist())
    assert labels[0].tolist() == expected_labels[n:]
    np.testing.assert_allclose(centres[0], expected_centres, atol=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_the_result_settles_by_the_plain_rule_too(seed):
    features, fixed, _ = blobs(seed, [20, 30, 40, 30], 2, apart=3.0)
    found = kmeans_fixed(features, 4, fixed, starts=3, tolerance=0.0, seed=seed)
    labels, centres = reference.lloyd(features.tolist(), found.centres.tolist(), fixed=fixed.tolist())
    assert found.labels.tolist() == labels
    assert found.inertia == pytest.approx(reference.inertia(features.tolist(), labels))
    np.testing.assert_allclose(found.centres, centres, atol=1e-9)


def test_labelled_features_stay_in_their_category_wherever_they_lie():
    features = torch.tensor([[0.0], [10.0], [9.9], [0.1], [0.2], [10.1], [10.2], [50.0]])
    fixed = torch.tensor([0, 1, 0])  # the third lies among those of category 1
    found = kmeans_fixed(features, 3, fixed, starts=3)
    assert found.labels.tolist() == [0, 1, 0, 0, 0, 1, 1, 2]


def test_images_of_known_categories_that_hide_among_the_others_are_found():
    features, fixed, truth = blobs(0, [60, 60, 60, 60, 60], 3, apart=12.0)
    found = kmeans_fixed(features, 5, fixed, starts=5).labels.numpy()
    hidden = (truth < 3) & (np.arange(len(truth)) >= len(fixed))
    assert (found[hidden] == truth[hidden]).mean() > 0.98
    assert clustering_accuracy(found[~hidden], truth[~hidden]) > 0.98


def test_known_categories_keep_their_numbers_and_new_clusters_follow_by_size():
    features, fixed, _ = blobs(1, [10, 80, 20, 60, 40], 2, apart=20.0)
    labels = kmeans_fixed(features, 5, fixed).labels
    assert torch.equal(labels[: len(fixed)], fixed)
    assert labels.bincount()[2:].tolist() == [60, 40, 20]


def test_as_many_clusters_as_known_categories_leave_nothing_new():
    features, fixed, truth = blobs(2, [30, 40], 2, apart=12.0)
    found = kmeans_fixed(features, 2, fixed)
    assert found.labels.tolist() == truth.tolist()
    assert found.centres.shape == (2, 8)


def test_a_new_cluster_begins_away_from_what_is_known():
    features = torch.tensor([[0.0], [0.0], [0.0], [7.0]])
    draws = torch.rand(20, 1, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert plus_plus(features, draws, torch.tensor([[0.0]])).flatten().tolist() == [7.0] * 20


def test_a_new_cluster_without_a_member_comes_last_and_has_the_centre_of_the_first():
    features = torch.tensor([[0.0], [0.0], [1.0], [1.0], [1.0]])
    found = kmeans_fixed(features, 4, torch.tensor([0, 0]), starts=2)
    assert found.labels.tolist() == [0, 0, 1, 1, 1]
    assert found.centres.flatten().tolist() == [0.0, 1.0, 0.0, 0.0]


def test_the_same_seed_gives_the_same_clustering_and_the_callers_randomness_is_left_alone():
    features, fixed, _ = blobs(3, [50] * 6, 2, apart=2.0)
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    first, second = (kmeans_fixed(features.float(), 6, fixed, starts=2, seed=5) for _ in range(2))
    assert torch.equal(torch.rand(3), expected)
    assert torch.equal(first.labels, second.labels)
    assert torch.equal(first.centres, second.centres)


def test_labels_cost_inertia_and_never_gain_it():
    features, fixed, _ = blobs(4, [50] * 6, 3, apart=2.0)
    assert kmeans_fixed(features, 6, fixed).inertia >= kmeans(features, 6).inertia * (1 - 1e-3)


@pytest.mark.parametrize("kind", [np.int64, np.uint8, list])
def test_arrays_are_taken_as_tensors_are(kind):
    features, fixed, _ = blobs(5, [20, 30, 40], 2)
    labels = fixed.tolist() if kind is list else fixed.numpy().astype(kind)
    found, expected = kmeans_fixed(features.numpy(), 3, labels), kmeans_fixed(features, 3, fixed)
    assert torch.equal(found.labels, expected.labels)
    assert torch.equal(found.centres, expected.centres)
    assert torch.equal(kmeans(features.numpy(), 3).labels, kmeans(features, 3).labels)


@pytest.mark.parametrize(
    "fixed", [["a", "b"], [0.0, 1.0], torch.zeros(2), torch.zeros(2, 1, dtype=torch.int64), [0, None]]
)
def test_labels_that_are_no_whole_numbers_are_refused(fixed):
    with pytest.raises(ValueError, match=r"whole numbers \[n\], got .*; np.unique\(labels, return_inverse=True\)"):
        kmeans_fixed(torch.arange(5.0)[:, None], 3, fixed)


@pytest.mark.parametrize(
    ("k", "fixed", "sentence"),
    [
        (1, [0, 1], "choose between 2 and 5"),
        (6, [0, 0, 1], "cannot make 6 clusters of 5"),
        (5, [0, 0, 1], "choose between 2 and 4"),
        (3, [], "the first ones; got 0 labels"),
        (3, [0, 1, 0, 1, 0], "the first ones; got 5 labels"),
        (3, [0, 2], "counted from 0, without a gap"),
        (3, [-1, 0], "counted from 0, without a gap"),
    ],
)
def test_what_cannot_be_clustered_is_refused(k, fixed, sentence):
    with pytest.raises(ValueError, match=sentence):
        kmeans_fixed(torch.arange(5.0)[:, None], k, torch.tensor(fixed, dtype=torch.int64))
