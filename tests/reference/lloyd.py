"""k-means by plain loops: Lloyd's iterations from given centres, and the figures of a clustering by its definition."""

import numpy as np


def squared_distance(a, b):
    return sum((x - y) ** 2 for x, y in zip(a, b, strict=True))


def nearest(point, centres):
    """The index of the nearest centre, the lowest one among equals."""
    best = 0
    for c in range(1, len(centres)):
        if squared_distance(point, centres[c]) < squared_distance(point, centres[best]):
            best = c
    return best


def lloyd(points, centres, iterations=300, fixed=()):
    """Labels and centres when nothing changes any more; an empty cluster takes the point farthest from its centre.

    The first points keep their labels ``fixed``, and never move to an empty cluster.
    """
    centres = [np.array(c, dtype=float) for c in centres]
    labels = None
    for _ in range(iterations):
        before, labels = labels, [*fixed, *(nearest(p, centres) for p in points[len(fixed) :])]
        empty = []
        for c in range(len(centres)):
            members = [p for p, label in zip(points, labels, strict=True) if label == c]
            if members:
                centres[c] = np.mean(members, axis=0)
            else:
                empty.append(c)
        if labels == before and not empty:
            break
        distances = [squared_distance(p, centres[label]) for p, label in zip(points, labels, strict=True)]
        farthest = sorted(range(len(fixed), len(points)), key=lambda i: -distances[i])
        for c, i in zip(empty, farthest, strict=False):
            if distances[i] > 1e-12:
                centres[c] = np.array(points[i], dtype=float)
    return labels, centres


def inertia(points, labels):
    """The sum of squared distances of all points from the mean of their cluster."""
    total = 0.0
    for c in sorted(set(labels)):
        members = [p for p, label in zip(points, labels, strict=True) if label == c]
        mean = np.mean(members, axis=0)
        total += sum(squared_distance(p, mean) for p in members)
    return total
