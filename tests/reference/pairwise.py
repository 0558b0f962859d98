"""Losses over pairs by their definitions: one pair at a time."""


def likelihood(first, second, same):
    total = 0
    for i, p in enumerate(first):
        for j, q in enumerate(second):
            together = sum(a * b for a, b in zip(p, q, strict=True))
            total -= (together if same[i][j] else 1 - together).log()
    return total / (len(first) * len(second))


def divergence(probabilities, same, margin):
    total = 0
    for i, p in enumerate(probabilities):
        for j, q in enumerate(probabilities.detach()):
            found = sum(b * (b.log() - a.log()) for a, b in zip(p, q, strict=True))
            total += found if same[i][j] else max(found * 0, margin - found)
    return total / len(probabilities) ** 2


def prototypical(features, support):
    total, count = 0, 0
    means = [sum(images[:support]) / support for images in features]
    for own, images in enumerate(features):
        for image in images[support:]:
            shares = [(-((image - mean) ** 2).sum()).exp() for mean in means]
            total -= (shares[own] / sum(shares)).log()
            count += 1
    return total / count
