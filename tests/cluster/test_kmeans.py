import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import lloyd as reference
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits

from newfound import cluster
from newfound.cluster import Clustering
from newfound.cluster.kmeans import _weighted_draw, kmeans, lloyd, plus_plus
from newfound.evaluate.accuracy import clustering_accuracy


def blobs(seed, n=600, k=6, d=8, spread=1.0):
    rng = np.random.default_rng(seed)
    centres = 2 * rng.normal(size=(k, d))
    return torch.tensor(centres[rng.integers(k, size=n)] + spread * rng.normal(size=(n, d)))


DATA = {
    "blobs": (blobs(0), 6),
    "touching blobs": (blobs(1, n=1000, k=10, spread=2.0), 10),
    "no structure": (torch.tensor(np.random.default_rng(2).normal(size=(500, 3))), 8),
    "uneven scales": (blobs(3, k=4) * torch.logspace(-2, 2, 8), 4),
    "digits": (torch.tensor(load_digits().data), 10),
    "digits, many clusters": (torch.tensor(load_digits().data), 40),
}


@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_inertia_is_as_low_as_that_of_scikit_learn(name, dtype):
    features, k = DATA[name]
    known = KMeans(k, n_init=20, random_state=0).fit(features.numpy()).inertia_
    assert kmeans(features.to(dtype), k).inertia <= 1.01 * known


def test_the_odd_digits_are_clustered_as_well_as_raw_pixels_allow():
    digits = load_digits()
    odd = digits.target % 2 == 1
    found = kmeans(torch.tensor(digits.data[odd]), 5)
    assert 0.67 <= clustering_accuracy(found.labels.numpy(), digits.target[odd]) <= 0.72


@pytest.mark.parametrize("seed", range(5))
def test_one_start_goes_the_way_of_plain_lloyd(seed):
    features = blobs(seed, n=120, k=4, spread=2.0)
    initial = torch.stack([features[:4], features[4:8], features[8:12]])
    labels, centres = lloyd(features, initial, iterations=300, tolerance=0.0)
    for start in range(3):
        expected_labels, expected_centres = reference.lloyd(features.tolist(), initial[start].tolist())
        assert labels[start].tolist() == expected_labels
        np.testing.assert_allclose(centres[start], expected_centres, atol=1e-9)


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), min_size=1, max_size=12), st.data())
@settings(max_examples=100, deadline=None)
def test_a_clustering_is_a_partition_with_its_means_and_its_inertia(points, data):
    features = torch.tensor(points, dtype=torch.float32)
    k = data.draw(st.integers(1, len(points)))
    found = kmeans(features, k, starts=3, seed=data.draw(st.integers(0, 5)))
    sizes = found.labels.bincount(minlength=k).tolist()
    assert sizes == sorted(sizes, reverse=True)
    assert (np.array(sizes) > 0).sum() == min(k, len(set(points)))
    for c in range(k):
        members = features[found.labels == c] if sizes[c] else features[found.labels == 0]
        torch.testing.assert_close(found.centres[c], members.mean(0))
    assert found.inertia == pytest.approx(reference.inertia(points, found.labels.tolist()), abs=1e-4)


def test_every_feature_is_with_its_nearest_centre_when_nothing_is_tolerated():
    features, k = DATA["touching blobs"]
    found = kmeans(features, k, tolerance=0.0)
    assert torch.equal(torch.cdist(features, found.centres).argmin(1), found.labels)


def test_clusters_are_numbered_by_size_and_equal_ones_by_their_first_member():
    features = torch.tensor([[9.0], [0.0], [5.0], [0.1], [5.1], [5.2], [9.1]])
    assert kmeans(features, 3).labels.tolist() == [1, 2, 0, 2, 0, 0, 1]
    renamed = Clustering.from_labels(features, torch.tensor([2, 0, 1, 0, 1, 1, 2]), 3)
    assert renamed.labels.tolist() == [1, 2, 0, 2, 0, 0, 1]


def test_the_same_seed_gives_the_same_clustering_with_one_thread_and_with_two():
    features = DATA["digits, many clusters"][0].float()
    before = torch.get_num_threads()
    found = []
    try:
        for threads in (1, 2, 2):
            torch.set_num_threads(threads)
            found.append(kmeans(features, 10, starts=5, seed=3))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(found[0].labels, found[1].labels)
    assert torch.equal(found[1].labels, found[2].labels)
    assert torch.equal(found[1].centres, found[2].centres)


def test_another_seed_draws_other_centres():
    features, k = DATA["no structure"]
    first, second = (kmeans(features, k, starts=1, seed=seed) for seed in (0, 1))
    assert not torch.equal(first.labels, second.labels)


def test_further_starts_never_make_it_worse():
    features, k = DATA["no structure"]
    inertias = [kmeans(features, k, starts=starts).inertia for starts in (1, 3, 10, 30)]
    assert inertias == sorted(inertias, reverse=True)
    assert inertias[-1] < inertias[0]


def test_the_randomness_of_the_caller_is_left_alone():
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    kmeans(blobs(0), 3)
    assert torch.equal(torch.rand(3), expected)


def test_chunks_give_what_one_piece_gives(monkeypatch):
    features, k = DATA["digits"]
    whole = kmeans(features, k, starts=4)
    monkeypatch.setitem(cluster.CHUNK, "cpu", 1000)
    chunked = kmeans(features, k, starts=4)
    assert torch.equal(whole.labels, chunked.labels)
    torch.testing.assert_close(whole.centres, chunked.centres)
    assert whole.inertia == pytest.approx(chunked.inertia)


def test_no_table_is_larger_than_the_chunk(monkeypatch):
    asked = []
    original = cluster.slices
    monkeypatch.setitem(cluster.CHUNK, "cpu", 1 << 12)

    def watched(rows, columns, device):
        for part in original(rows, columns, device):
            asked.append(min(rows, part.stop) - part.start)
            assert asked[-1] * columns <= max(1 << 12, columns)
            yield part

    monkeypatch.setattr("newfound.cluster.kmeans.slices", watched)
    kmeans(blobs(0), 6)
    assert len(asked) > 20


def test_a_large_mean_costs_no_accuracy():
    features = blobs(4, spread=1.5)
    near, far = kmeans(features.float(), 6), kmeans((features + 3000).float(), 6)
    assert torch.equal(near.labels, far.labels)
    assert far.inertia == pytest.approx(near.inertia, rel=1e-3)
    torch.testing.assert_close(far.centres - 3000, near.centres, rtol=0, atol=2e-3)


def test_one_cluster_is_the_mean_of_all():
    features = blobs(5)
    found = kmeans(features, 1)
    assert not found.labels.any()
    torch.testing.assert_close(found.centres[0], features.mean(0))
    assert found.inertia == pytest.approx((features - features.mean(0)).square().sum().item())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_as_many_clusters_as_features_leave_no_inertia(dtype):
    features = blobs(6, n=60).to(dtype)
    found = kmeans(features, 60)
    assert sorted(found.labels.tolist()) == list(range(60))
    assert found.inertia == pytest.approx(0, abs=1e-8)


def test_fewer_distinct_values_than_clusters_come_to_an_end_with_empty_clusters_last():
    features = torch.tensor([[0.1, 0.7], [3.3, 1.2], [-2.1, 0.4]]).repeat(40, 1)
    for k in (4, 7, 100):
        found = kmeans(features, k)
        assert found.labels.bincount(minlength=k).tolist() == [40, 40, 40] + [0] * (k - 3)
        assert found.inertia == pytest.approx(0, abs=1e-9)
        assert torch.equal(found.centres[3:], found.centres[:1].expand(k - 3, 2))


def test_equal_features_settle_in_a_few_iterations(monkeypatch):
    passes = []
    from newfound.cluster import kmeans as module

    original = module._assign
    monkeypatch.setattr(module, "_assign", lambda *args: passes.append(1) or original(*args))
    module.kmeans(torch.full((50, 3), 0.3), 5)
    assert len(passes) <= 3


def test_empty_clusters_take_the_farthest_features_each_its_own():
    features = torch.tensor([[0.0], [1.0], [2.0], [30.0], [31.0], [-90.0]], dtype=torch.float64)
    far_away = torch.tensor([[[0.0], [1e4], [2e4]], [[0.0], [31.0], [-90.0]]], dtype=torch.float64)
    labels, centres = lloyd(features, far_away, iterations=1, tolerance=0.0)
    assert labels[0].tolist() == [0] * 6
    mean = -26 / 6
    assert centres[0, :, 0].tolist() == pytest.approx([mean, -90.0, 31.0])
    assert centres[1, :, 0].tolist() == pytest.approx([1.0, 30.5, -90.0])
    settled, _ = lloyd(features, far_away, iterations=100, tolerance=0.0)
    assert settled[0].tolist() == [0, 0, 0, 2, 2, 1]


def test_empty_clusters_are_filled_as_by_plain_loops():
    features = blobs(8, n=80, k=5)
    initial = torch.cat([features[:3], torch.full((2, 8), 500.0, dtype=torch.float64)])[None]
    labels, centres = lloyd(features, initial, iterations=300, tolerance=0.0)
    expected_labels, expected_centres = reference.lloyd(features.tolist(), initial[0].tolist())
    assert labels[0].tolist() == expected_labels
    np.testing.assert_allclose(centres[0], expected_centres, atol=1e-9)


def test_a_settled_start_does_not_depend_on_those_that_go_on():
    features = blobs(9, n=300, spread=2.0)
    initial = torch.stack([features[i * 6 : i * 6 + 6] for i in range(5)])
    together, _ = lloyd(features, initial, iterations=300, tolerance=1e-4)
    for start in range(5):
        alone, _ = lloyd(features, initial[start : start + 1], iterations=300, tolerance=1e-4)
        assert torch.equal(together[start], alone[0])


def test_seeding_takes_features_that_are_far_apart():
    groups = torch.tensor([0.0, 100.0, 200.0, 300.0]).repeat_interleave(50)[:, None]
    features = groups + torch.rand(200, 1, generator=torch.Generator().manual_seed(0))
    draws = torch.rand(10, 4, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    centres = plus_plus(features, draws)
    assert ((centres / 100).floor().squeeze(2).sort(dim=1).values == torch.arange(4)).all()
    assert torch.isin(centres, features).all()


def test_more_draws_a_centre_make_better_seeds():
    features = blobs(1, n=500, k=10)
    left = []
    for trials in (1, 2, 8):
        draws = torch.rand(50, 10, trials, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        centres = plus_plus(features, draws)
        left.append(torch.cdist(features.expand(50, -1, -1), centres).square().amin(dim=2).sum(dim=1).mean().item())
    assert left[0] > left[1] > left[2]


def test_draws_follow_the_weights():
    weights = torch.tensor([[0.0, 1.0, 0.0, 2.0, 1.0], [0.0, 0.0, 0.0, 0.0, 0.0]])
    draws = (torch.arange(1000, dtype=torch.float64) / 1000).expand(2, -1)
    found = _weighted_draw(weights, draws)
    assert found[0].bincount(minlength=5).tolist() == pytest.approx([0, 250, 0, 500, 250], abs=1)
    assert found[1].bincount(minlength=5).tolist() == pytest.approx([200] * 5, abs=1)


@pytest.mark.parametrize(
    ("given", "worked"),
    [
        (torch.float16, torch.float32),
        (torch.bfloat16, torch.float32),
        (torch.float32, torch.float32),
        (torch.float64, torch.float64),
    ],
)
def test_half_precision_is_worked_on_in_single(given, worked):
    features = blobs(0).to(given)
    found = kmeans(features, 6, starts=3)
    assert found.centres.dtype == worked
    assert torch.equal(found.labels, kmeans(features.to(worked), 6, starts=3).labels)


def test_mixed_precision_around_it_changes_nothing():
    features = blobs(0).float()
    expected = kmeans(features, 6, starts=3)
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("medium")
        with torch.autocast("cpu", dtype=torch.bfloat16):
            found = kmeans(features, 6, starts=3)
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision(before)
    assert torch.equal(found.centres, expected.centres)


@pytest.mark.parametrize("k", [0, -1, 11])
def test_an_impossible_number_of_clusters_is_refused(k):
    with pytest.raises(ValueError, match=f"cannot make {k} clusters of 10 features: choose between 1 and 10"):
        kmeans(torch.zeros(10, 2), k)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_features_that_are_not_finite_are_refused(bad):
    features = torch.zeros(10, 2)
    features[3, 1] = bad
    with pytest.raises(ValueError, match="some are infinite or not a number"):
        kmeans(features, 2)


@pytest.mark.parametrize("shape", [(10,), (0, 3), (2, 3, 4)])
def test_what_is_no_table_of_features_is_refused(shape):
    with pytest.raises(ValueError, match=r"expected features \[N, D\]"):
        kmeans(torch.zeros(shape), 1)


@pytest.mark.gpu
@pytest.mark.parametrize("name", DATA)
def test_cpu_and_gpu_find_the_same_clusters(name):
    features, k = DATA[name]
    on_cpu, on_gpu = kmeans(features.float(), k), kmeans(features.float().cuda(), k)
    assert on_gpu.labels.is_cuda
    assert on_gpu.inertia == pytest.approx(on_cpu.inertia, rel=1e-3)
    assert (on_gpu.labels.cpu() == on_cpu.labels).float().mean() > 0.99


@pytest.mark.gpu
def test_the_gpu_gives_the_same_bits_every_time_even_where_training_uses_tf32():
    features = blobs(1, n=20_000, k=10, d=64, spread=2.0).float().cuda()
    expected = kmeans(features, 10)
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("high")
        found = kmeans(features, 10)
    finally:
        torch.set_float32_matmul_precision(before)
    assert torch.equal(found.labels, expected.labels)
    assert torch.equal(found.centres, expected.centres)
