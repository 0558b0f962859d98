"""Clustering accuracy by its definition: try every one-to-one mapping."""

from itertools import permutations


def best_matching(predicted, truth):
    """The largest number of images that are right under any one-to-one mapping of clusters to classes."""
    clusters, classes = sorted(set(predicted)), sorted(set(truth))
    # Where clusters outnumber classes, the spare ones get no class; None equals no true class.
    spare = [None] * max(0, len(clusters) - len(classes))
    best = 0
    for chosen in permutations([*classes, *spare], len(clusters)):
        meaning = dict(zip(clusters, chosen, strict=True))
        best = max(best, sum(meaning[p] == t for p, t in zip(predicted, truth, strict=True)))
    return best


def accuracy(predicted, truth):
    return best_matching(predicted, truth) / len(truth)
