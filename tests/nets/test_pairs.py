import pytest
import torch
from reference import pairwise as reference

from newfound.nets.pairs import PairHead


@pytest.fixture
def head():
    torch.manual_seed(0)
    head = PairHead(2).double()
    torch.nn.init.uniform_(head.norm.weight, 0.5, 2)
    torch.nn.init.uniform_(head.norm.bias, -1, 1)
    return head


def plain(head, features):
    """The logits [n, n, 2] of the reference, which holds one number at a time."""
    parameters = head.first.weight, head.norm.weight, head.norm.bias, head.last.weight, head.last.bias
    rows = reference.pair_logits(features, *parameters, head.norm.eps)
    return torch.stack([torch.stack(row) for row in rows]).view(len(features), len(features), 2)


def test_the_pair_head_has_value_and_gradient_of_the_plain_reference(head):
    features = torch.randn(5, 2, dtype=torch.float64).requires_grad_()
    inputs = [features, *head.parameters()]
    weights = torch.randn(5, 5, 2, dtype=torch.float64)
    expected = plain(head, features)
    slopes = torch.autograd.grad((weights * expected).sum(), inputs)
    found = head.float()(features.float())
    torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=1e-5)
    single = [features, *head.parameters()]
    for ours, theirs in zip(torch.autograd.grad((weights * found).sum(), single), slopes, strict=True):
        torch.testing.assert_close(ours.double(), theirs.double(), rtol=1e-3, atol=1e-5)


def test_batch_norm_goes_by_the_batch_in_evaluation_too(head):
    features = torch.randn(6, 2)
    learning = head.float().train()(features)
    assert torch.equal(head.eval()(features), learning)
    torch.testing.assert_close(head(10 * features + 3), learning, rtol=1e-3, atol=1e-3)
