"""The mean shift over neighbours, by plain loops."""

import numpy as np


def mean_shift(points, rounds, neighbours):
    """Each unit point moves halfway to the mean of its nearest others, by the cosine, and is brought to length 1."""
    points = [np.array(p, dtype=float) for p in points]
    for _ in range(rounds):
        moved = []
        for i, point in enumerate(points):
            others = [j for j in range(len(points)) if j != i]
            others.sort(key=lambda j, p=point: -float(p @ points[j]))
            mean = np.mean([points[j] for j in others[:neighbours]], axis=0)
            target = 0.5 * point + 0.5 * mean
            moved.append(target / np.linalg.norm(target))
        points = moved
    return np.array(points)


def ward(points, k):
    """Groups of points, as sets of their places: two are joined that raise the sum of squared distances the least."""
    points = np.asarray(points, dtype=float)

    def squares(group):
        members = points[sorted(group)]
        return float(((members - members.mean(0)) ** 2).sum())

    groups = [{i} for i in range(len(points))]
    while len(groups) > k:
        pairs = [(a, b) for a in range(len(groups)) for b in range(a)]
        rise = [squares(groups[a] | groups[b]) - squares(groups[a]) - squares(groups[b]) for a, b in pairs]
        a, b = pairs[int(np.argmin(rise))]
        groups[b] |= groups[a]
        del groups[a]
    return groups
