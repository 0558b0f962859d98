"""Mean-entropy regularisation by its definition: one image, one category at a time."""


def unevenness(logits, allowed):
    """From logits [views, n, C], and the categories [n, C] that each image may have: no other logit counts."""
    views, n, categories = logits.shape
    mean, even = [0.0] * categories, [0.0] * categories
    for i in range(n):
        own = [c for c in range(categories) if allowed[i, c]]
        for c in own:
            even[c] += 1 / len(own) / n
            for v in range(views):
                probability = logits[v, i, c].exp() / sum(logits[v, i, other].exp() for other in own)
                mean[c] = mean[c] + probability / n / views
    return sum(p * (p / e).log() for p, e in zip(mean, even, strict=True) if e)
