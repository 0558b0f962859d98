"""Instance discrimination: a student predicts, from every view, what its teacher says of another view."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F


def self_distillation(
    student: Tensor,
    teacher: Tensor,
    centre: Tensor,
    *,
    student_temperature: float = 0.1,
    teacher_temperature: float | Tensor = 0.04,
) -> Tensor:
    """The mean cross-entropy (a scalar) of student outputs [V, n, O] against teacher outputs [2, n, O].

    L_ins of section 3.1.1 of the paper (DINO, Caron et al. 2021): H(P_t(x), P_s(x')) for every view x of the teacher
    and every view x' of the student but x itself. The student's views 0 and 1 are the teacher's two global views. The
    paper sums over the 2 (V - 1) pairs of views; here their mean is taken. The teacher's outputs are centred by
    ``centre`` [O] and sharpened by its temperature, and no gradient goes to them.
    """
    if len(student) < 2 or len(teacher) != 2:
        raise ValueError(
            f"expected 2 views of the teacher and at least 2 of the student: {len(teacher)}, {len(student)}"
        )
    log_student = F.log_softmax(student.float() / student_temperature, dim=-1)
    targets = F.softmax((teacher.detach().float() - centre.detach().float()) / teacher_temperature, dim=-1)
    # A global view predicts the other one, and the remaining views predict both: no tensor [2, V, n, O] is needed.
    across = (targets.flip(0) * log_student[:2]).sum()
    to_both = (targets.sum(dim=0) * log_student[2:].sum(dim=0)).sum()
    views, images = student.shape[:2]
    return -(across + to_both) / (2 * (views - 1) * images)
