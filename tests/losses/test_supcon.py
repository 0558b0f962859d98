from math import log

import pytest
import torch
from reference import supcon as reference

from newfound.losses import joint_contrast, nt_xent

LABELS = torch.tensor([0, 1, 0, -1, -1])


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("labels", [LABELS, torch.tensor([2, 2, 2, 2, 2]), torch.full((5,), -1)], ids=str)
@pytest.mark.parametrize("temperature", [0.1, 0.5])
def test_value_and_gradient_are_those_of_the_plain_reference(labels, temperature):
    views = random(2, 5, 6).requires_grad_()
    expected = reference.joint_contrast(views, labels, temperature)
    (expected_gradient,) = torch.autograd.grad(expected, views)
    fast = views.detach().float().requires_grad_()
    got = joint_contrast(fast, labels, temperature=temperature)
    (gradient,) = torch.autograd.grad(got, fast)
    torch.testing.assert_close(got.double(), expected, rtol=1e-5, atol=0)
    torch.testing.assert_close(gradient.double(), expected_gradient, rtol=1e-4, atol=1e-6)


def test_without_labels_it_is_the_contrast_of_simclr():
    views = random(2, 5, 6).float()
    unlabelled = joint_contrast(views, torch.full((5,), -1), temperature=0.3)
    torch.testing.assert_close(unlabelled, nt_xent(views, temperature=0.3))


def test_images_of_one_category_attract_each_other_and_unlabelled_ones_do_not():
    """Where the first two images lie together and the others apart, a label they share makes that right."""
    points = torch.eye(4)[[0, 0, 1, 2]].expand(2, -1, -1)
    together, apart, unlabelled = (
        joint_contrast(points, torch.tensor(labels)).item()
        for labels in ([0, 0, -1, -1], [0, 1, -1, -1], [-1, -1, -1, -1])
    )
    assert apart == pytest.approx(unlabelled)
    scattered = torch.eye(4).expand(2, -1, -1)
    assert together < joint_contrast(scattered, torch.tensor([0, 0, -1, -1])).item()
    assert unlabelled > joint_contrast(scattered, torch.tensor([-1, -1, -1, -1])).item()


def test_views_that_are_all_alike_cost_the_logarithm_of_how_many_there_are():
    assert joint_contrast(torch.ones(2, 5, 4), LABELS).item() == pytest.approx(log(9), rel=1e-5)


def test_half_precision_outputs_are_compared_in_single_precision():
    views = random(2, 5, 6).bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        found = joint_contrast(views, LABELS)
    assert torch.equal(found, joint_contrast(views.float(), LABELS))


@pytest.mark.parametrize(("shape", "n"), [((1, 4), 4), ((3, 4), 4), ((2, 1), 1), ((2, 4), 3)])
def test_other_numbers_of_views_images_and_labels_are_refused(shape, n):
    with pytest.raises(ValueError, match="expected 2 views of at least 2 images"):
        joint_contrast(torch.ones(*shape, 6), torch.zeros(n, dtype=torch.int64))
