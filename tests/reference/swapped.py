"""Swapped prediction by its definition: one pair of views, one image at a time."""


def log_softmax(logits):
    return logits - logits.exp().sum().log()


def swapped_prediction(logits, targets):
    """The mean cross-entropy over images and over pairs of a whole view's targets and another view's logits."""
    total, pairs = 0.0, 0
    for labelling in range(2):
        for predicting in range(len(logits)):
            if predicting == labelling:
                continue
            for i in range(logits.shape[1]):
                total = total - (targets[labelling, i].detach() * log_softmax(logits[predicting, i])).sum()
                pairs += 1
    return total / pairs
