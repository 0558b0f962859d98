from math import log

import pytest
import torch
from reference import swapped as reference

from newfound.losses import swapped_prediction


def case(views, heads=2, n=3, categories=5, seed=0):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(heads, views, n, categories, generator=generator, dtype=torch.float64)
    targets = torch.randn(heads, 2, n, categories, generator=generator, dtype=torch.float64).softmax(-1)
    return logits, targets


@pytest.mark.parametrize("views", [2, 3, 4])
def test_value_and_gradient_are_those_of_the_plain_reference(views):
    logits, targets = case(views)
    logits.requires_grad_()
    expected = torch.stack([reference.swapped_prediction(a, b) for a, b in zip(logits, targets, strict=True)])
    (expected_gradient,) = torch.autograd.grad(expected.sum(), logits)
    fast = logits.detach().float().requires_grad_()
    got = swapped_prediction(fast, targets.float())
    (gradient,) = torch.autograd.grad(got.sum(), fast)
    torch.testing.assert_close(got.double(), expected, rtol=1e-5, atol=0)
    torch.testing.assert_close(gradient.double(), expected_gradient, rtol=1e-4, atol=1e-6)


def test_a_view_is_not_asked_for_its_own_label():
    _, targets = case(2)
    sure = 100 * targets.flip(1).argmax(-1)[..., None].eq(torch.arange(5)).double()  # each says the other's label
    hard = targets.argmax(-1)[..., None].eq(torch.arange(5)).double()
    assert swapped_prediction(sure, hard).max() < 1e-6
    assert swapped_prediction(sure.flip(1), hard).min() > 1


def test_who_cannot_tell_pays_the_logarithm_of_the_number_of_categories():
    logits, targets = case(4)
    assert swapped_prediction(torch.zeros_like(logits), targets)[0].item() == pytest.approx(log(5))


def test_no_gradient_goes_to_the_labels():
    logits, targets = case(3)
    targets.requires_grad_()
    swapped_prediction(logits.requires_grad_(), targets).sum().backward()
    assert targets.grad is None
