import pytest
import torch
from reference import consistency as reference

from newfound.losses import consistency

EACH = torch.tensor([[1, 1, 1, 0, 0], [0, 0, 0, 1, 1], [1, 1, 1, 0, 0], [0, 0, 0, 1, 1]], dtype=torch.bool)


def probabilities(n, allowed, seed):
    logits = torch.randn(n, allowed.shape[-1], generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return logits.masked_fill(~allowed, -torch.inf).softmax(1)


@pytest.mark.parametrize("allowed", [None, EACH[0], EACH], ids=["all", "some", "each image's own"])
def test_consistency_has_value_and_gradient_of_the_plain_reference(allowed):
    rows = torch.ones(4, 5, dtype=torch.bool) if allowed is None else allowed.expand(4, -1)
    pair = [probabilities(4, rows, seed).requires_grad_() for seed in (0, 1)]
    expected = reference.consistency(*pair, rows)
    single = [value.detach().float().requires_grad_() for value in pair]
    got = consistency(*single, allowed)
    torch.testing.assert_close(got.double(), expected, rtol=1e-5, atol=1e-8)
    gradients = torch.autograd.grad(got, single), torch.autograd.grad(expected, pair)
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours.double(), theirs * rows, rtol=1e-4, atol=1e-7)


def test_categories_of_other_tasks_change_nothing():
    alone, all_allowed = torch.ones(3, dtype=torch.bool), torch.tensor([True, True, True, False, False, False])
    pair = [probabilities(4, alone, seed) for seed in (0, 1)]
    among_others = [torch.cat([value, torch.zeros(4, 3)], 1) for value in pair]
    torch.testing.assert_close(consistency(*pair, alone), consistency(*among_others, all_allowed))
