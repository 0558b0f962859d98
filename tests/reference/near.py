"""Which known categories a novel one is near, one pair of categories after the other."""

import math


def near_known(features, groups, n_known, n_novel, bar, most):
    """Names for each novel category from feature vectors and the category of each."""

    def unit(vector):
        length = math.sqrt(sum(x * x for x in vector))
        return [x / length for x in vector]

    def centre(group):
        members = [unit(f) for f, g in zip(features, groups, strict=True) if g == group]
        return unit([sum(column) for column in zip(*members, strict=True)]) if members else None

    def cosine(a, b):
        return sum(x * y for x, y in zip(a, b, strict=True))

    centres = {g: c for g in range(n_known + n_novel) if (c := centre(g)) is not None}
    known = [g for g in centres if g < n_known]
    nearest = {k: max(cosine(centres[k], centres[other]) for other in known if other != k) for k in known}
    found = []
    for novel in range(n_known, n_known + n_novel):
        names = []
        if novel in centres:
            for k in sorted(known, key=lambda k: -cosine(centres[novel], centres[k])):
                no_nearer = sum(nearest[other] <= cosine(centres[novel], centres[k]) for other in known)
                if no_nearer / len(known) >= bar:
                    names.append(k)
        found.append(names[:most])
    return found
