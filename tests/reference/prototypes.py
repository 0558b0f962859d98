"""The rules by which prototypes move, one class and one sample at a time."""

import torch


def unit(vector):
    return vector / (vector * vector).sum().sqrt()


def class_mean(features, targets, c, cosine=True):
    """The mean of the features by their weight for class c; None where nothing has any weight."""
    total, mass = 0.0, 0.0
    for feature, target in zip(features, targets, strict=True):
        if target[c] > 0:
            total = total + float(target[c]) * (unit(feature) if cosine else feature)
            mass += float(target[c])
    return total / mass if mass else None


def batch_mean(prototypes, features, targets, momentum, cosine=True):
    """One step of the moving average for each class, by the class's mean in the batch."""
    rows = []
    for c, p in enumerate(prototypes):
        mean = class_mean(features, targets, c, cosine)
        if mean is not None:
            p = momentum * p + (1 - momentum) * mean
            p = unit(p) if cosine else p
        rows.append(p)
    return torch.stack(rows)


def per_sample(prototypes, features, targets, momentum, cosine=True, project_each=False):
    """One step of the moving average for each sample in turn; a target of weight w counts as w samples."""
    rows = []
    for c, p in enumerate(prototypes):
        for feature, target in zip(features, targets, strict=True):
            if target[c] > 0:
                kept = momentum ** float(target[c])
                p = kept * p + (1 - kept) * (unit(feature) if cosine else feature)
                p = unit(p) if cosine and project_each else p
        rows.append(unit(p) if cosine else p)
    return torch.stack(rows)


def similarity(kind, feature, prototype):
    if kind == "cosine":
        return (unit(feature) * unit(prototype)).sum()
    if kind == "dot":
        return (feature * prototype).sum()
    return -((feature - prototype) ** 2).sum()
