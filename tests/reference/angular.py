"""Pair-wise angular separation by its definition."""


def cosine(a, b):
    return (a * b).sum() / ((a * a).sum() * (b * b).sum()).sqrt()


def separation(prototypes, groups=None):
    """The mean over prototypes of the largest cosine to another one, of the same group where there are groups."""
    total = 0.0 * prototypes.sum()
    for i, p in enumerate(prototypes):
        others = [j for j in range(len(prototypes)) if j != i and (groups is None or groups[i] == groups[j])]
        if others:
            total = total + max((cosine(p, prototypes[j]) for j in others), key=lambda value: value.item())
    return total / len(prototypes)


def separation_as_printed(prototypes):
    """The paper's formula for two or more prototypes of unit length: (1/K) sum_i max_j M_ij with M = P P^T - 2 I."""
    total = 0.0
    for i, p in enumerate(prototypes):
        total += max(float((p * q).sum()) - (2.0 if i == j else 0.0) for j, q in enumerate(prototypes))
    return total / len(prototypes)
