"""Normalised mutual information and adjusted Rand index from their definitions."""

from itertools import combinations
from math import log


def share(labels, value):
    return sum(label == value for label in labels) / len(labels)


def entropy(labels):
    return -sum(share(labels, v) * log(share(labels, v)) for v in set(labels))


def mutual_information(a, b):
    pairs = list(zip(a, b, strict=True))
    return sum(share(pairs, p) * log(share(pairs, p) / (share(a, p[0]) * share(b, p[1]))) for p in set(pairs))


def nmi(a, b):
    """Mutual information over the mean of both entropies; 1 where both put everything into one group."""
    if len(set(a)) == len(set(b)) == 1:
        return 1.0
    return mutual_information(a, b) / ((entropy(a) + entropy(b)) / 2)


def ari(a, b):
    """How far the number of pairs together in both exceeds its expectation, over how far it could."""
    pairs = list(combinations(range(len(a)), 2))
    both = sum(a[i] == a[j] and b[i] == b[j] for i, j in pairs)
    in_a = sum(a[i] == a[j] for i, j in pairs)
    in_b = sum(b[i] == b[j] for i, j in pairs)
    expected = in_a * in_b / len(pairs) if pairs else 0.0
    most = (in_a + in_b) / 2
    return 1.0 if most == expected else (both - expected) / (most - expected)
