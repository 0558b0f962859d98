from math import log

import pytest
import torch
from reference import distillation as reference

from newfound.losses import self_distillation


def outputs(views, n=3, out=5, seed=0):
    generator = torch.Generator().manual_seed(seed)
    student = torch.randn(views, n, out, generator=generator, dtype=torch.float64) / 3
    teacher = torch.randn(2, n, out, generator=generator, dtype=torch.float64) / 3
    return student, teacher, torch.randn(out, generator=generator, dtype=torch.float64) / 9


@pytest.mark.parametrize("views", [2, 3, 8])
@pytest.mark.parametrize("temperatures", [(0.1, 0.04), (0.5, 1.0)])
def test_value_and_gradient_are_those_of_the_plain_reference(views, temperatures):
    student, teacher, centre = outputs(views)
    student.requires_grad_()
    expected = reference.self_distillation(student, teacher, centre, *temperatures)
    (expected_gradient,) = torch.autograd.grad(expected, student)
    fast = student.detach().float().requires_grad_()
    got = self_distillation(
        fast,
        teacher.float(),
        centre.float(),
        student_temperature=temperatures[0],
        teacher_temperature=torch.tensor(temperatures[1]),
    )
    (gradient,) = torch.autograd.grad(got, fast)
    torch.testing.assert_close(got.double(), expected, rtol=1e-5, atol=0)
    torch.testing.assert_close(gradient.double(), expected_gradient, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("views", [2, 8])
@pytest.mark.parametrize("out", [2, 100])
def test_a_student_that_cannot_tell_pays_the_logarithm_of_the_number_of_outputs(views, out):
    _, teacher, centre = outputs(views, out=out)
    loss = self_distillation(torch.full((views, 3, out), 0.7), teacher, centre)
    assert loss.item() == pytest.approx(log(out), rel=1e-5)


def test_what_teacher_and_student_say_of_the_same_view_does_not_matter():
    student, teacher, centre = outputs(2)
    first_only = torch.stack([student[0], student[1]]).requires_grad_()
    flat = teacher.clone()
    flat[1] = centre  # the teacher is undecided on view 1, which only view 0 of the student has to predict
    (before,) = torch.autograd.grad(self_distillation(first_only, flat, centre), first_only)
    flat[0] = flat[0].flip(-1)  # another opinion on view 0
    (after,) = torch.autograd.grad(self_distillation(first_only, flat, centre), first_only)
    assert torch.equal(before[0], after[0])
    assert not torch.allclose(before[1], after[1])


def test_the_centre_is_taken_off_the_teacher_alone():
    student, teacher, centre = outputs(4)
    shifted = self_distillation(student, teacher + 3 * centre, 4 * centre)
    torch.testing.assert_close(shifted, self_distillation(student, teacher, centre), rtol=1e-4, atol=0)
    assert not torch.isclose(self_distillation(student, teacher, 2 * centre), shifted, rtol=1e-3)


def test_no_gradient_goes_to_the_teacher_or_the_centre():
    student, teacher, centre = (tensor.requires_grad_() for tensor in outputs(3))
    self_distillation(student, teacher, centre).backward()
    assert student.grad is not None
    assert teacher.grad is None
    assert centre.grad is None


def test_half_precision_outputs_are_compared_in_single_precision():
    student, teacher, centre = (tensor.bfloat16() for tensor in outputs(4, out=50))
    with torch.autocast("cpu", torch.bfloat16):
        loss = self_distillation(student, teacher, centre)
    assert loss.dtype == torch.float32
    assert torch.equal(loss, self_distillation(student.float(), teacher.float(), centre.float()))


def test_large_outputs_do_not_overflow():
    student, teacher, centre = outputs(3)
    student = (1e3 * student).requires_grad_()
    loss = self_distillation(student, 1e3 * teacher, centre)
    loss.backward()
    assert loss.isfinite()
    assert student.grad.isfinite().all()


@pytest.mark.parametrize(("views", "teacher_views"), [(1, 2), (2, 1), (4, 4)])
def test_other_numbers_of_views_are_refused(views, teacher_views):
    with pytest.raises(ValueError, match=f"2 views of the teacher and at least 2 of the student: {teacher_views}, "):
        self_distillation(torch.randn(views, 3, 5), torch.randn(teacher_views, 3, 5), torch.zeros(5))
