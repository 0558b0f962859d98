import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import angular as reference
from torch.nn import functional as F

from newfound.losses import separation


def vectors(k, d, seed):
    return torch.randn(k, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def both(prototypes, groups=None):
    """Value and gradient, by the reference and by the package."""
    slow = prototypes.detach().double().requires_grad_()
    expected = reference.separation(slow, groups)
    fast = prototypes.detach().float().requires_grad_()
    got = separation(fast, groups)
    return (expected, *torch.autograd.grad(expected, slow)), (got, *torch.autograd.grad(got, fast))


@given(st.integers(1, 8), st.integers(2, 6), st.integers(0, 10**6), st.booleans())
@settings(max_examples=60, deadline=None)
def test_value_and_gradient_are_those_of_the_plain_reference(k, d, seed, grouped):
    prototypes = vectors(k, d, seed)
    groups = torch.randint(0, 3, (k,), generator=torch.Generator().manual_seed(seed)) if grouped else None
    (value, gradient), (got, got_gradient) = both(prototypes, groups)
    torch.testing.assert_close(got.double(), value, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(got_gradient.double(), gradient, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("k", [2, 3, 20])
def test_unit_prototypes_give_the_formula_of_the_paper(k):
    prototypes = F.normalize(vectors(k, 5, seed=k), dim=1)
    assert separation(prototypes).item() == pytest.approx(reference.separation_as_printed(prototypes), abs=1e-6)


def test_a_single_prototype_costs_exactly_nothing():
    alone = torch.randn(1, 4, requires_grad=True)
    loss = separation(alone)
    loss.backward()
    assert loss.item() == 0
    assert torch.equal(alone.grad, torch.zeros(1, 4))


def test_the_corners_of_a_simplex_are_as_far_apart_as_they_can_be():
    corners = torch.eye(4) - 0.25
    assert separation(corners).item() == pytest.approx(-1 / 3, abs=1e-6)
    assert separation(torch.tensor([[1.0, 0.0], [-2.0, 0.0]])).item() == pytest.approx(-1)


def test_groups_are_separated_only_among_themselves():
    prototypes = vectors(7, 4, seed=0).float().requires_grad_()
    groups = torch.tensor([5, 9, 5, 9, 5, 9, 2])
    loss = separation(prototypes, groups)
    parts = [separation(prototypes[groups == g]) * (groups == g).sum() for g in (5, 9, 2)]
    torch.testing.assert_close(loss, sum(parts) / 7)
    (gradient,) = torch.autograd.grad(loss, prototypes)
    assert torch.equal(gradient[6], torch.zeros(4))  # a group of one


def test_half_precision_around_it_does_not_change_the_cosines():
    prototypes = vectors(6, 32, seed=0).float()
    with torch.autocast("cpu", torch.bfloat16):
        inside = separation(prototypes)
    assert torch.equal(inside, separation(prototypes))


@given(st.integers(2, 6), st.integers(0, 10**6))
@settings(max_examples=30, deadline=None)
def test_a_gradient_step_lowers_the_loss(k, seed):
    prototypes = vectors(k, 8, seed).float().requires_grad_()
    before = separation(prototypes)
    (gradient,) = torch.autograd.grad(before, prototypes)
    assert separation(prototypes - 0.01 * gradient) < before
