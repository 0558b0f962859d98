"""Winner-take-all codes and thresholds by their definitions: one image, one code, one pair at a time."""


def code(feature, window):
    """The place in the window of the dimension that is largest."""
    values = [float(feature[dimension]) for dimension in window]
    return values.index(max(values))


def codes(features, windows):
    return [[code(feature, window) for window in windows] for feature in features]


def shared(one, other):
    """How many codes two images have in common."""
    return sum(a == b for a, b in zip(one, other, strict=True))


def f_measure(pairs, threshold, beta, share):
    """From pairs (codes in common, whether of one category): how good it is to take those from the threshold on, where
    ``share`` of all pairs are of one category."""
    same = [common >= threshold for common, is_same in pairs if is_same]
    different = [common >= threshold for common, is_same in pairs if not is_same]
    recall, false_alarms = sum(same) / len(same), sum(different) / len(different)
    if not recall:
        return 0.0
    precision = share * recall / (share * recall + (1 - share) * false_alarms)
    return (1 + beta**2) * precision * recall / (beta**2 * precision + recall)


def best_threshold(pairs, highest, share):
    """The middle of the thresholds whose F-measure, beta = 1/2, is within .01 of the best."""
    scores = {threshold: f_measure(pairs, threshold, 0.5, share) for threshold in range(1, highest + 1)}
    good = [threshold for threshold, score in scores.items() if score >= max(scores.values()) - 0.01]
    return (good[0] + good[-1]) // 2
