"""Soft assignments, their targets and the divergence by their definitions: one image and one cluster at a time."""

import torch


def assignment(vectors, centres, allowed=None):
    rows = []
    for i, z in enumerate(vectors):
        near = [1 / (1 + sum((a - b) ** 2 for a, b in zip(z, mu, strict=True))) for mu in centres]
        if allowed is not None:
            near = [n if may else n * 0 for n, may in zip(near, allowed[i], strict=True)]
        rows.append(torch.stack([n / sum(near) for n in near]))
    return torch.stack(rows)


def sharpen(assignment):
    n, k = assignment.shape
    size = [sum(assignment[i, c] for i in range(n)) for c in range(k)]
    rows = []
    for q in assignment:
        weight = [q[c] ** 2 / size[c] for c in range(k)]
        rows.append(torch.stack([w / sum(weight) for w in weight]))
    return torch.stack(rows)


def divergence(targets, assignment, allowed=None):
    return _mean(lambda p, q: p * (p.log() - q.log()), targets, assignment, allowed)


def _mean(function, first, second, allowed):
    total = 0
    for i, (p, q) in enumerate(zip(first, second, strict=True)):
        own = [c for c in range(len(p)) if allowed is None or allowed[i][c]]
        total += sum(function(p[c], q[c]) for c in own) / len(own)
    return total / len(first)


def ensemble(predictions, momentum):
    """The weighted mean of the predictions of all epochs: an epoch ago counts ``momentum`` times as much."""
    weights = [momentum**age for age in reversed(range(len(predictions)))]
    return sum(w * p for w, p in zip(weights, predictions, strict=True)) / sum(weights)
