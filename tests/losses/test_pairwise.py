import pytest
import torch
from reference import pairwise as reference

from newfound.losses import pair_divergence, pair_likelihood, prototypical


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def alike(fast, slow, *inputs):
    """Value and gradient of ``fast`` in single precision against those of ``slow`` in double precision."""
    expected = slow(*inputs)
    gradients = torch.autograd.grad(expected, inputs)
    single = [value.detach().float().requires_grad_() for value in inputs]
    got = fast(*single)
    torch.testing.assert_close(got.double(), expected, rtol=1e-5, atol=1e-6)
    for ours, theirs in zip(torch.autograd.grad(got, single), gradients, strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-4, atol=1e-6)


SAME = torch.tensor([[True, False, True, False], [False, True, False, False], [True, False, True, True]])


def test_pair_likelihood_has_value_and_gradient_of_the_plain_reference():
    one, other = random(3, 5).requires_grad_(), random(4, 5, seed=1).requires_grad_()
    alike(
        lambda a, b: pair_likelihood(a.softmax(1), b.softmax(1), SAME),
        lambda a, b: reference.likelihood(a.softmax(1), b.softmax(1), SAME),
        one,
        other,
    )


@pytest.mark.parametrize("margin", [0.5, 2.0])
def test_pair_divergence_has_value_and_gradient_of_the_plain_reference(margin):
    logits = (2 * random(4, 5)).requires_grad_()
    same = torch.eye(4, dtype=torch.bool) | (torch.arange(4) % 2 == torch.arange(4)[:, None] % 2)
    alike(
        lambda a: pair_divergence(a.softmax(1), same, margin=margin),
        lambda a: reference.divergence(a.softmax(1), same, margin),
        logits,
    )


def test_prototypical_has_value_and_gradient_of_the_plain_reference():
    features = (0.7 * random(3, 5, 4)).requires_grad_()
    alike(lambda a: prototypical(a, 2), lambda a: reference.prototypical(a, 2), features)


def test_certain_and_right_pairs_cost_nothing():
    sure = torch.eye(4)
    same = torch.eye(4, dtype=torch.bool)
    assert pair_likelihood(sure, sure, same).item() == pytest.approx(0, abs=1e-5)
    assert pair_likelihood(sure, sure, ~same).item() > 10
    assert pair_divergence(sure, same).item() == pytest.approx(0, abs=1e-5)
    assert pair_divergence(sure, ~same).item() > 2


def test_probabilities_of_half_precision_are_compared_in_single_precision():
    probabilities = random(6, 4).softmax(1).bfloat16()
    same = torch.eye(6, dtype=torch.bool)
    with torch.autocast("cpu", torch.bfloat16):
        found = pair_likelihood(probabilities, probabilities, same), pair_divergence(probabilities, same)
    assert torch.equal(found[0], pair_likelihood(probabilities.float(), probabilities.float(), same))
    assert torch.equal(found[1], pair_divergence(probabilities.float(), same))
