"""Weighted cross-entropy by its definition, one image at a time."""


def rectified_cross_entropy(logits, labels, weights):
    """Sum over images of weight times cross-entropy, over the number of images; labels are numbers or soft targets."""
    total = 0.0
    for row, label, weight in zip(logits, labels, weights, strict=True):
        exponentials = row.exp()
        log_probabilities = (exponentials / exponentials.sum()).log()
        if label.ndim == 0:
            total = total - weight * log_probabilities[int(label)]
        else:
            total = total - weight * sum(t * p for t, p in zip(label, log_probabilities, strict=True))
    return total / len(logits)
