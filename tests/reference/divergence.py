"""IIC's two terms by their definition: one pair of distributions at a time."""


def softmax(logits):
    exponentials = logits.exp()
    return exponentials / exponentials.sum()


def symmetric(first, second):
    p, q = softmax(first), softmax(second)
    return ((p * (p / q).log()).sum() + (q * (q / p).log()).sum()) / 2


def inter_class(known, novel):
    pairs = [symmetric(a, b) for a in known for b in novel]
    return sum(pairs) / len(pairs)


def intra_class(logits):
    views, images, categories = logits.shape
    found = [
        symmetric(logits[v, i], logits[w, i]) for v in range(views) for w in range(v + 1, views) for i in range(images)
    ]
    return sum(found) / len(found) / categories
