from math import log

import pytest
import torch
from reference import contrastive as reference

from newfound.losses import info_nce, nt_xent


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("n", [2, 5])
@pytest.mark.parametrize("temperature", [0.1, 0.5])
def test_nt_xent_has_value_and_gradient_of_the_plain_reference(n, temperature):
    views = random(2, n, 6).requires_grad_()
    expected = reference.nt_xent(views, temperature)
    (expected_gradient,) = torch.autograd.grad(expected, views)
    fast = views.detach().float().requires_grad_()
    got = nt_xent(fast, temperature=temperature)
    (gradient,) = torch.autograd.grad(got, fast)
    torch.testing.assert_close(got.double(), expected, rtol=1e-5, atol=0)
    torch.testing.assert_close(gradient.double(), expected_gradient, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("waiting", [1, 7])
@pytest.mark.parametrize("temperature", [0.07, 0.2])
def test_info_nce_has_value_and_gradient_of_the_plain_reference(waiting, temperature):
    queries, keys, queue = random(4, 6).requires_grad_(), random(4, 6, seed=1), random(waiting, 6, seed=2)
    expected = reference.info_nce(queries, keys, queue, temperature)
    (expected_gradient,) = torch.autograd.grad(expected, queries)
    fast = queries.detach().float().requires_grad_()
    got = info_nce(fast, keys.float(), queue.float(), temperature=temperature)
    (gradient,) = torch.autograd.grad(got, fast)
    torch.testing.assert_close(got.double(), expected, rtol=1e-5, atol=0)
    torch.testing.assert_close(gradient.double(), expected_gradient, rtol=1e-4, atol=1e-6)


def test_views_that_are_all_alike_cost_the_logarithm_of_how_many_there_are():
    assert nt_xent(torch.ones(2, 10, 4)).item() == pytest.approx(log(19), rel=1e-5)
    assert info_nce(torch.ones(10, 4), torch.ones(10, 4), torch.ones(30, 4)).item() == pytest.approx(log(31), rel=1e-5)


def test_no_gradient_goes_to_keys_and_queue():
    queries, keys, queue = (random(5, 6, seed=i).requires_grad_() for i in range(3))
    info_nce(queries, keys, queue).backward()
    assert queries.grad is not None
    assert keys.grad is None
    assert queue.grad is None


def test_half_precision_outputs_are_compared_in_single_precision():
    views = random(2, 5, 6).bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        pairs, queued = nt_xent(views), info_nce(views[0], views[1], views.flatten(0, 1))
    assert pairs.dtype == queued.dtype == torch.float32
    wide = views.float()
    assert torch.equal(pairs, nt_xent(wide))
    assert torch.equal(queued, info_nce(wide[0], wide[1], wide.flatten(0, 1)))


@pytest.mark.parametrize("shape", [(1, 4), (3, 4), (2, 1)])
def test_other_numbers_of_views_and_a_lone_image_are_refused(shape):
    with pytest.raises(ValueError, match="expected 2 views of at least 2 images"):
        nt_xent(torch.ones(*shape, 6))
