"""Sinkhorn's iterations with plain numbers."""

from math import exp


def sinkhorn(similarity, epsilon, rounds, columns=None, allowed=None):
    """Assignments as lists: each column scaled to its share, then each row to 1, so many times; at last each row."""
    n, k = len(similarity), len(similarity[0])
    columns = [1.0] * k if columns is None else columns
    allowed = [[True] * k for _ in range(n)] if allowed is None else allowed
    plan = [[exp(similarity[i][c] / epsilon) if allowed[i][c] else 0.0 for c in range(k)] for i in range(n)]
    shares = [0.0] * k
    for i in range(n):
        own = sum(columns[c] for c in range(k) if allowed[i][c])
        for c in range(k):
            if allowed[i][c]:
                shares[c] += columns[c] / own
    for _ in range(rounds):
        for c in range(k):
            mass = sum(plan[i][c] for i in range(n))
            for i in range(n):
                plan[i][c] *= shares[c] / mass if mass else 0.0
        plan = [normalised(row) for row in plan]
    return [normalised(row) for row in plan]


def normalised(row):
    total = sum(row)
    return [value / total for value in row] if total else row
