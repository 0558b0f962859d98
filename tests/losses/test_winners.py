import pytest
import torch
from reference import wta as reference

from newfound.losses import choose_threshold, count_pairs, shared_codes, wta_codes, wta_windows

CODES, WIDTH, DIMENSIONS = 20, 3, 8


def case(n=6, seed=0):
    """Features [n, D], some entries of which are equal, and windows."""
    torch.manual_seed(seed)
    return torch.randn(n, DIMENSIONS).mul(2).round().relu(), wta_windows(CODES, WIDTH, DIMENSIONS)


def test_a_window_has_different_dimensions_and_every_dimension_is_in_some():
    torch.manual_seed(0)
    windows = wta_windows(200, 4, 10)
    assert windows.shape == (200, 4)
    assert all(len(set(window)) == 4 for window in windows.tolist())
    assert set(windows.flatten().tolist()) == set(range(10))
    assert len({tuple(window) for window in windows.tolist()}) > 150, "each has its own permutation"


def test_codes_and_what_images_have_in_common_are_those_of_the_plain_reference():
    features, windows = case()
    expected = reference.codes(features, windows.tolist())
    codes = wta_codes(features, windows)
    assert codes.tolist() == expected
    assert shared_codes(codes, WIDTH).tolist() == [[reference.shared(a, b) for b in expected] for a in expected]


def test_codes_depend_on_which_dimension_is_larger_and_not_by_how_much():
    features, windows = case()
    distorted = features.square() + 3
    assert torch.equal(wta_codes(distorted, windows), wta_codes(features, windows))
    assert not torch.equal(wta_codes(-features, windows), wta_codes(features, windows))


def test_unrelated_features_have_one_code_in_window_many_in_common():
    torch.manual_seed(0)
    codes = wta_codes(torch.randn(200, 64), wta_windows(512, 4, 64))
    others = shared_codes(codes, 4)[~torch.eye(200, dtype=torch.bool)]
    assert others.double().mean().item() == pytest.approx(512 / 4, rel=0.03)
    assert shared_codes(codes, 4).diagonal().eq(512).all()


def test_all_codes_are_counted_under_autocast():
    codes = torch.zeros(2, 511, dtype=torch.int64)  # bfloat16 would make it 512
    with torch.autocast("cpu", torch.bfloat16):
        assert shared_codes(codes, 4).tolist() == [[511, 511], [511, 511]]


def test_pairs_of_different_images_are_counted_by_what_they_share_and_whether_they_are_of_one_category():
    features, windows = case(7)
    labels = torch.tensor([0, 1, 0, 2, 1, 1, 0])
    codes = wta_codes(features, windows)
    expected = torch.zeros(2, CODES + 1, dtype=torch.int64)
    for i in range(7):
        for j in range(7):
            if i != j:
                expected[int(labels[i] == labels[j]), reference.shared(codes[i], codes[j])] += 1
    assert torch.equal(count_pairs(shared_codes(codes, WIDTH), labels, CODES), expected)


def pairs_of(rows):
    """(Codes in common, of one category) for each pair that was counted."""
    return [
        (common, bool(same)) for same, row in enumerate(rows.tolist()) for common, n in enumerate(row) for _ in range(n)
    ]


def overlapping(seed):
    """Pairs of one category share more codes, but not always."""
    rows = torch.randint(0, 5, (2, 13), generator=torch.Generator().manual_seed(seed))
    rows[1] += torch.arange(13) // 4
    return rows


@pytest.mark.parametrize("beta", [0.5, 1.0])
@pytest.mark.parametrize("share", [0.5, 0.1])
@pytest.mark.parametrize("seed", range(4))
def test_the_threshold_has_the_largest_f_measure(seed, share, beta):
    rows = overlapping(seed)
    found = int(choose_threshold(rows, share, beta=beta, slack=0.0))
    scores = [reference.f_measure(pairs_of(rows), threshold, beta, share) for threshold in range(1, 13)]
    assert scores[found - 1] == pytest.approx(max(scores))


@pytest.mark.parametrize("seed", range(8))
def test_the_threshold_is_the_middle_of_those_that_are_nearly_the_best(seed):
    rows = overlapping(seed)
    assert int(choose_threshold(rows, 0.3)) == reference.best_threshold(pairs_of(rows), 12, 0.3)


def test_the_threshold_is_higher_where_pairs_of_one_category_are_rarer():
    rows = torch.tensor([[8, 7, 6, 5, 4, 3, 2, 1, 0], [0, 1, 2, 3, 4, 5, 6, 7, 8]])
    common, rare = (int(choose_threshold(rows, share)) for share in (0.5, 0.02))
    assert common < rare


def test_a_rarer_kind_of_pair_counts_as_if_it_had_been_seen_as_rarely():
    """Ten times as many pairs of different categories are what a smaller share stands for."""
    rows = torch.tensor([[8, 7, 6, 5, 4, 3, 2, 1, 0], [0, 1, 2, 3, 4, 5, 6, 7, 8]])
    more = rows * torch.tensor([[10], [1]])
    share = float(more[1].sum() / more.sum())
    assert int(choose_threshold(rows, share, slack=0.0)) == int(choose_threshold(more, share, slack=0.0))


def test_where_categories_are_told_apart_the_threshold_lies_in_the_middle():
    rows = torch.zeros(2, 101, dtype=torch.int64)
    rows[0, :20], rows[1, 60:] = 5, 5  # any threshold from 20 to 60 is right
    assert int(choose_threshold(rows, 0.2, slack=0.0)) == 40
