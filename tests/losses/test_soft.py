import pytest
import torch
from reference import rectified as reference

from newfound.losses import soft_cross_entropy


@pytest.mark.parametrize("each", [False, True])
def test_value_and_gradient_are_those_of_the_plain_reference(each):
    generator = torch.Generator().manual_seed(0)
    logits = (3 * torch.randn(2, 5, 4, generator=generator, dtype=torch.float64)).requires_grad_()
    targets = torch.rand(
        (2, 5, 4) if each else (5, 4), generator=generator, dtype=torch.float64
    )  # they need not sum to 1
    rows = targets if each else targets.expand(2, 5, 4)
    expected = reference.rectified_cross_entropy(logits.flatten(0, 1), rows.flatten(0, 1), torch.ones(10))
    got = soft_cross_entropy(logits, targets)
    torch.testing.assert_close(got, expected)
    torch.testing.assert_close(torch.autograd.grad(got, logits), torch.autograd.grad(expected, logits))
