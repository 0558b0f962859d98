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


def pair_logits(features, first, scale, shift, last, bias, epsilon):
    """Both features side by side, a linear layer, batch norm over all pairs, ReLU, a linear layer with bias."""
    pairs = [[*one, *other] for one in features for other in features]
    hidden = [[sum(w * x for w, x in zip(row, pair, strict=True)) for row in first] for pair in pairs]
    columns = []
    for k, column in enumerate(zip(*hidden, strict=True)):
        mean = sum(column) / len(column)
        variance = sum((value - mean) ** 2 for value in column) / len(column)
        normed = [scale[k] * (value - mean) / (variance + epsilon) ** 0.5 + shift[k] for value in column]
        columns.append([max(value, value * 0) for value in normed])
    rows = zip(*columns, strict=True)
    return [
        [b + sum(w * x for w, x in zip(row, one, strict=True)) for row, b in zip(last, bias, strict=True)]
        for one in rows
    ]
