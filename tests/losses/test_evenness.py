import math

import pytest
import torch
from reference import evenness as reference

from newfound.losses import unevenness

ALL = torch.ones(5, 4, dtype=torch.bool)
TASKS = torch.tensor([[True, True, False, False]] * 2 + [[False, False, True, True]] * 3)


def random(*shape):
    return 2 * torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.mark.parametrize("allowed", [ALL, TASKS], ids=["all categories", "two tasks"])
def test_value_and_gradient_are_those_of_the_plain_reference(allowed):
    logits = random(2, 5, 4).requires_grad_()
    expected = reference.unevenness(logits, allowed)
    (expected_gradient,) = torch.autograd.grad(expected, logits)
    fast = logits.detach().float().requires_grad_()
    got = unevenness(fast.masked_fill(~allowed, -1e4), allowed)
    (gradient,) = torch.autograd.grad(got, fast)
    torch.testing.assert_close(got.double(), expected, rtol=1e-5, atol=0)
    torch.testing.assert_close(gradient.double(), expected_gradient, rtol=1e-4, atol=1e-6)


def test_it_is_what_the_mean_prediction_lacks_to_the_largest_entropy():
    logits = random(2, 5, 4)
    mean = logits.softmax(-1).mean((0, 1))
    expected = math.log(4) + float((mean * mean.log()).sum())
    assert unevenness(logits, ALL).item() == pytest.approx(expected, rel=1e-5)


def test_sure_predictions_cost_nothing_if_categories_share_them_and_log_c_if_one_has_them_all():
    sure = 1e4 * torch.eye(4).repeat(2, 1, 1)
    assert unevenness(sure, ALL[:4]).item() == pytest.approx(0, abs=1e-6)
    one = sure[:, :1].expand(2, 4, 4)
    assert unevenness(one, ALL[:4]).item() == pytest.approx(math.log(4), rel=1e-5)


def test_tasks_of_different_sizes_are_each_even_by_themselves():
    logits = torch.zeros(2, 5, 4).masked_fill(~TASKS, -1e4)
    assert unevenness(logits, TASKS).item() == pytest.approx(0, abs=1e-6)
