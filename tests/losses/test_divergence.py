import pytest
import torch
from reference import divergence as reference

from newfound.losses import inter_class, intra_class


def logits(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def compare(got, got_of, expected, expected_of):
    expected_gradients = torch.autograd.grad(expected, expected_of)
    gradients = torch.autograd.grad(got, got_of)
    torch.testing.assert_close(got.double(), expected, rtol=1e-4, atol=0)
    for gradient, other in zip(gradients, expected_gradients, strict=True):
        torch.testing.assert_close(gradient.double(), other, rtol=1e-3, atol=1e-6)


def test_inter_class_is_the_mean_over_all_pairs():
    known, novel = logits(2, 3, 4, 6).requires_grad_(), logits(2, 3, 5, 6, seed=1).requires_grad_()
    cases = [(a, b) for one, other in zip(known, novel, strict=True) for a, b in zip(one, other, strict=True)]
    expected = sum(reference.inter_class(a, b) for a, b in cases) / len(cases)
    fast = known.detach().float().requires_grad_(), novel.detach().float().requires_grad_()
    compare(inter_class(*fast), fast, expected, (known, novel))


@pytest.mark.parametrize("views", [2, 4])
def test_intra_class_is_the_mean_over_pairs_of_views_by_category(views):
    given = logits(2, views, 3, 5).requires_grad_()
    expected = sum(map(reference.intra_class, given)) / 2
    fast = given.detach().float().requires_grad_()
    compare(intra_class(fast), (fast,), expected, (given,))


def test_equal_distributions_do_not_diverge():
    same = logits(1, 1, 6).expand(1, 4, 6)
    assert inter_class(same, same).item() == pytest.approx(0, abs=1e-6)
    assert intra_class(same[:, :, None].transpose(0, 2)).item() == pytest.approx(0, abs=1e-6)
