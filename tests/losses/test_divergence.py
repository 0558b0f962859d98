import pytest
import torch
from reference import divergence as reference

from newfound.losses import divergence


@pytest.mark.parametrize(("n", "m"), [(4, 7), (1, 1), (5, 2)])
def test_value_and_gradient_are_those_of_the_plain_reference(n, m):
    generator = torch.Generator().manual_seed(0)
    first, second = (3 * torch.randn(k, 5, generator=generator, dtype=torch.float64) for k in (n, m))
    plain = [first.clone().requires_grad_(), second.clone().requires_grad_()]
    expected = reference.divergence(*plain)
    fast = [first.float().requires_grad_(), second.float().requires_grad_()]
    got = divergence(*fast)
    torch.testing.assert_close(got.double(), expected, rtol=1e-5, atol=1e-6)
    for ours, theirs in zip(torch.autograd.grad(got, fast), torch.autograd.grad(expected, plain), strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-4, atol=1e-6)


def test_the_same_rows_do_not_diverge_and_the_order_does_not_matter():
    logits = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    assert divergence(logits[:1], logits[:1]) == pytest.approx(0, abs=1e-6)
    torch.testing.assert_close(divergence(logits[:1], logits[1:]), divergence(logits[1:], logits[:1]))


def test_half_precision_logits_are_taken_in_single_precision():
    first, second = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0)).bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        loss = divergence(first, second)
    assert loss.dtype == torch.float32
    assert torch.equal(loss, divergence(first.float(), second.float()))
