"""Consistency by its definition: one image at a time, one probability at a time."""


def consistency(first, second, allowed=None):
    """``allowed`` has a row of booleans for each image."""
    total = 0
    for i, (one, other) in enumerate(zip(first, second, strict=True)):
        own = [c for c in range(len(one)) if allowed is None or allowed[i][c]]
        total += sum((one[c] - other[c]) ** 2 for c in own) / len(own)
    return total / len(first)
