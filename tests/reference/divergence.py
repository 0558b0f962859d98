"""The symmetric divergence by its definition, one pair at a time."""


def divergence(first, second):
    total = 0.0
    for one in first:
        for other in second:
            p, q = (row.exp() / row.exp().sum() for row in (one, other))
            total = total + ((p * (p / q).log()).sum() + (q * (q / p).log()).sum()) / 2
    return total / (len(first) * len(second))
