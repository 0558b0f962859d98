import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import sinkhorn as reference

from newfound.losses.sinkhorn import sinkhorn


def similarities(n, k, seed, dims=8):
    """Cosines of n images to k categories."""
    generator = torch.Generator().manual_seed(seed)
    images = torch.nn.functional.normalize(torch.randn(n, dims, generator=generator), dim=1)
    categories = torch.nn.functional.normalize(torch.randn(k, dims, generator=generator), dim=1)
    return images @ categories.T


def blocks(sizes, categories):
    """Which categories [n, K] images may have, where block b holds sizes[b] images and categories[b] categories."""
    return torch.block_diag(*(torch.ones(n, k) for n, k in zip(sizes, categories, strict=True))).bool()


@given(st.integers(1, 12), st.integers(1, 5), st.integers(0, 4), st.integers(0, 10**6), st.booleans(), st.booleans())
@settings(max_examples=80, deadline=None)
def test_assignments_are_those_of_the_plain_reference(n, k, rounds, seed, restricted, weighted):
    generator = torch.Generator().manual_seed(seed)
    similarity = similarities(n, k, seed)
    allowed = torch.rand(n, k, generator=generator) < 0.6 if restricted else None
    columns = torch.rand(k, generator=generator) + 0.1 if weighted else None
    got = sinkhorn(similarity, epsilon=0.2, rounds=rounds, columns=columns, allowed=allowed)
    expected = reference.sinkhorn(
        similarity.double().tolist(),
        0.2,
        rounds,
        None if columns is None else columns.double().tolist(),
        None if allowed is None else allowed.tolist(),
    )
    torch.testing.assert_close(got.double(), torch.tensor(expected, dtype=torch.float64), rtol=1e-3, atol=1e-5)


@given(st.integers(1, 40), st.integers(1, 6), st.integers(0, 10**6), st.floats(0.01, 100))
@settings(max_examples=60, deadline=None)
def test_rows_sum_to_one_and_forbidden_entries_are_exactly_nought(n, k, seed, scale):
    allowed = torch.rand(n, k, generator=torch.Generator().manual_seed(seed)) < 0.5
    assignments = sinkhorn(scale * similarities(n, k, seed), allowed=allowed)
    torch.testing.assert_close(assignments.sum(dim=1), allowed.any(dim=1).float(), rtol=0, atol=1e-4)
    assert (assignments[~allowed] == 0).all()
    assert (assignments >= 0).all()


@pytest.mark.parametrize("seed", range(5))
def test_columns_share_the_images_equally(seed):
    similarity = similarities(600, 6, seed)
    similarity[:, 0] += 1  # one category that attracts nearly all
    unbalanced = sinkhorn(similarity, rounds=0)
    assert unbalanced.sum(dim=0).max() > 400
    assert unbalanced.argmax(dim=1).bincount(minlength=6).max() > 400
    usual = sinkhorn(similarity)
    torch.testing.assert_close(usual.sum(dim=0), torch.full((6,), 100.0), rtol=0.3, atol=0)
    assert (usual.argmax(dim=1).bincount(minlength=6) - 100).abs().max() < 35
    longer = sinkhorn(similarity, rounds=100)
    torch.testing.assert_close(longer.sum(dim=0), torch.full((6,), 100.0), rtol=1e-3, atol=0)
    assert (longer.argmax(dim=1).bincount(minlength=6) - 100).abs().max() < 25


def test_columns_may_ask_for_unequal_shares():
    columns = torch.tensor([1.0, 2.0, 5.0])
    sums = sinkhorn(similarities(800, 3, seed=0), rounds=100, columns=columns).sum(dim=0)
    torch.testing.assert_close(sums, 100 * columns, rtol=1e-3, atol=0)


def test_a_column_that_asks_for_nothing_gets_nothing():
    assignments = sinkhorn(similarities(30, 3, seed=0), rounds=100, columns=torch.tensor([1.0, 0.0, 1.0]))
    torch.testing.assert_close(assignments.sum(dim=0), torch.tensor([15.0, 0.0, 15.0]), rtol=1e-3, atol=0)


def test_blocks_balance_each_by_itself():
    sizes, categories = (60, 10, 200), (3, 1, 5)
    similarity = similarities(270, 9, seed=0)
    assignments = sinkhorn(similarity, rounds=100, allowed=blocks(sizes, categories))
    expected = torch.tensor([20.0] * 3 + [10.0] + [40.0] * 5)
    torch.testing.assert_close(assignments.sum(dim=0), expected, rtol=1e-3, atol=0)
    alone = sinkhorn(similarity[70:, 4:], rounds=100)
    torch.testing.assert_close(assignments[70:, 4:], alone, rtol=1e-3, atol=1e-5)


def test_rows_without_a_category_do_not_change_the_others():
    similarity = similarities(50, 4, seed=0)
    allowed = torch.ones(50, 4, dtype=torch.bool)
    allowed[20:] = False
    assignments = sinkhorn(similarity, allowed=allowed)
    torch.testing.assert_close(assignments[:20], sinkhorn(similarity[:20]))
    assert torch.equal(assignments[20:], torch.zeros(30, 4))


def test_without_rounds_it_is_a_softmax():
    similarity = similarities(9, 4, seed=0)
    torch.testing.assert_close(sinkhorn(similarity, rounds=0), (similarity / 0.05).softmax(dim=1))


def test_a_single_category_gets_everything():
    assert torch.equal(sinkhorn(similarities(7, 1, seed=0)), torch.ones(7, 1))


@pytest.mark.parametrize("scale", [1e-6, 1e4])
def test_neither_flat_nor_huge_similarities_overflow(scale):
    similarity = scale * similarities(64, 8, seed=0)
    assignments = sinkhorn(similarity, epsilon=1e-3)
    assert assignments.isfinite().all()
    torch.testing.assert_close(assignments.sum(dim=1), torch.ones(64))


def test_half_precision_similarities_are_balanced_in_single_precision():
    half = similarities(40, 4, seed=0).bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        assignments = sinkhorn(half)
    assert torch.equal(assignments, sinkhorn(half.float()))


def test_three_rounds_at_a_twentieth_are_made_unless_told_otherwise():
    similarity = similarities(30, 4, seed=0)
    usual = sinkhorn(similarity)
    assert torch.equal(usual, sinkhorn(similarity, epsilon=0.05, rounds=3))
    for others in ({"rounds": 2}, {"rounds": 4}, {"epsilon": 0.04}):
        assert not torch.allclose(usual, sinkhorn(similarity, **others)), others
