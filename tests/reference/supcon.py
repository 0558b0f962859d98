"""Contrast with labels by its definition: one view at a time, one positive at a time."""

from reference.contrastive import cosine


def joint_contrast(views, labels, temperature):
    """The mean, over all views [2, n, D], of the mean over a view's positives of how badly each is found."""
    everything = [(v, i) for v in range(2) for i in range(len(labels))]
    total = 0.0
    for v, i in everything:
        others = [place for place in everything if place != (v, i)]
        shares = {place: (cosine(views[v, i], views[place]) / temperature).exp() for place in others}
        labelled = labels[i] >= 0
        positives = [(w, j) for w, j in others if j == i or (labelled and labels[j] == labels[i])]
        found = [-(shares[place] / sum(shares.values())).log() for place in positives]
        total = total + sum(found) / len(found)
    return total / len(everything)
