"""Consistency by its definition: one probability at a time."""


def consistency(first, second, allowed):
    total, count = 0, 0
    for one, other in zip(first, second, strict=True):
        for category, counted in enumerate(allowed):
            if counted:
                total += (one[category] - other[category]) ** 2
                count += 1
    return total / count
