"""The losses of SimCLR and MoCo by their definitions: one view at a time, one other at a time."""


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True)) / (a.norm() * b.norm())


def found_among(right, wrong, temperature):
    """Minus the logarithm of the right one's share, from cosines."""
    shares = [(value / temperature).exp() for value in (right, *wrong)]
    return -(shares[0] / sum(shares)).log()


def nt_xent(views, temperature):
    """The mean over all views of how badly the partner is found among all others; views [2, n, D]."""
    total, n = 0.0, views.shape[1]
    everything = [(v, i) for v in range(2) for i in range(n)]
    for v, i in everything:
        others = [views[place] for place in everything if place not in ((v, i), (1 - v, i))]
        wrong = [cosine(views[v, i], other) for other in others]
        total = total + found_among(cosine(views[v, i], views[1 - v, i]), wrong, temperature)
    return total / (2 * n)


def info_nce(queries, keys, queue, temperature):
    """The mean over queries [n, D] of how badly the own key is found among it and the queue [K, D]."""
    total = 0.0
    for query, key in zip(queries, keys, strict=True):
        total = total + found_among(cosine(query, key), [cosine(query, other) for other in queue], temperature)
    return total / len(queries)
