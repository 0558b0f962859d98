"""Ranking statistics by their definition: one pair at a time."""


def top(feature, k):
    return set(sorted(range(len(feature)), key=lambda d: (-float(feature[d]), d))[:k])


def same_top_ranks(features, k):
    return [[top(one, k) == top(other, k) for other in features] for one in features]
