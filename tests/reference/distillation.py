"""Self-distillation by its definition: one pair of views, one image at a time."""


def probabilities(outputs, temperature):
    exponentials = (outputs / temperature).exp()
    return exponentials / exponentials.sum()


def cross_entropy(target, prediction):
    return sum(-t * p.log() for t, p in zip(target, prediction, strict=True))


def self_distillation(student, teacher, centre, student_temperature, teacher_temperature):
    """The mean cross-entropy over images and over pairs of a teacher's and another view of the student's."""
    total, pairs = 0.0, 0
    for i in range(student.shape[1]):
        for x in range(2):
            target = probabilities(teacher[x, i] - centre, teacher_temperature).detach()
            for other in range(len(student)):
                if other != x:
                    total = total + cross_entropy(target, probabilities(student[other, i], student_temperature))
                    pairs += 1
    return total / pairs
