import pytest
import torch
from reference import ranking as reference

from newfound.losses import same_top_ranks


def random(n, width, seed=0):
    return torch.rand(n, width, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("k", [1, 2, 3])
def test_pairs_are_those_of_the_plain_reference(k):
    features = random(40, 5)
    found = same_top_ranks(features, k)
    assert found.tolist() == reference.same_top_ranks(features, k)
    assert 0 < found.float().mean() < 1


def test_the_set_of_the_largest_counts_and_not_their_order_or_size():
    features = torch.tensor([[9.0, 5, 1, 0], [2, 3, 1, 0], [9, 1, 5, 0], [90, 50, 10, 20]])
    assert same_top_ranks(features, 2).tolist() == [
        [True, True, False, True],
        [True, True, False, True],
        [False, False, True, False],
        [True, True, False, True],
    ]


def test_of_equal_values_the_first_counts_as_larger():
    features = random(60, 6).mul(3).floor()
    assert same_top_ranks(features, 3).tolist() == reference.same_top_ranks(features, 3)


def test_no_gradient_goes_through_ranks_and_half_precision_changes_no_count():
    features = random(30, 300).requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        found = same_top_ranks(features, 290)
    assert not found.requires_grad
    assert found.tolist() == reference.same_top_ranks(features.detach(), 290)
