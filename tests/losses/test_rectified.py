import pytest
import torch
from reference import rectified as reference
from torch.nn import functional as F

from newfound.losses import rectified_cross_entropy


def example(soft, n=6, classes=4):
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(n, classes, generator=generator, dtype=torch.float64)
    labels = torch.randint(0, classes, (n,), generator=generator)
    if soft:
        labels = torch.rand(n, classes, generator=generator, dtype=torch.float64)
        labels = labels / labels.sum(dim=1, keepdim=True)
    return logits, labels, torch.rand(n, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("soft", [False, True])
def test_value_and_gradient_are_those_of_the_plain_reference(soft):
    logits, labels, weights = example(soft)
    logits.requires_grad_()
    expected = reference.rectified_cross_entropy(logits, labels, weights)
    (expected_gradient,) = torch.autograd.grad(expected, logits)
    fast = logits.detach().float().requires_grad_()
    got = rectified_cross_entropy(fast, labels, weights)
    (gradient,) = torch.autograd.grad(got, fast)
    torch.testing.assert_close(got.double(), expected, rtol=1e-5, atol=0)
    torch.testing.assert_close(gradient.double(), expected_gradient, rtol=1e-4, atol=1e-6)


def test_weights_of_one_give_the_mean_cross_entropy():
    logits, labels, _ = example(soft=False)
    torch.testing.assert_close(
        rectified_cross_entropy(logits, labels, torch.ones(6)), F.cross_entropy(logits.float(), labels)
    )


def test_the_sum_is_divided_by_the_number_of_images_and_not_by_the_weights():
    logits, labels, weights = example(soft=False)
    torch.testing.assert_close(
        rectified_cross_entropy(logits, labels, weights / 2), rectified_cross_entropy(logits, labels, weights) / 2
    )


def test_one_hot_targets_are_the_same_as_labels():
    logits, labels, weights = example(soft=False)
    torch.testing.assert_close(
        rectified_cross_entropy(logits, F.one_hot(labels, 4).float(), weights),
        rectified_cross_entropy(logits, labels, weights),
    )


def test_an_image_of_weight_nought_has_no_gradient():
    logits, labels, weights = example(soft=False)
    weights[2] = 0
    logits.requires_grad_()
    rectified_cross_entropy(logits, labels, weights).backward()
    assert (logits.grad.abs().sum(dim=1) > 0).tolist() == [True, True, False, True, True, True]


def test_weights_get_no_gradient():
    logits, labels, weights = example(soft=False)
    weights.requires_grad_()
    rectified_cross_entropy(logits.requires_grad_(), labels, weights).backward()
    assert weights.grad is None


def test_half_precision_logits_are_taken_in_single_precision():
    logits, labels, weights = example(soft=True)
    half = logits.bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        loss = rectified_cross_entropy(half, labels.bfloat16(), weights)
    assert loss.dtype == torch.float32
    assert torch.equal(loss, rectified_cross_entropy(half.float(), labels.bfloat16().float(), weights))
