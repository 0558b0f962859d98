"""Votes of several heads by their definition: try every one-to-one mapping of a head's categories."""

from itertools import permutations


def votes(probabilities, lead):
    """The mean over heads of probabilities [H][n][K], each head's categories in the order that agrees most with the
    lead's."""
    images, categories = len(probabilities[lead]), len(probabilities[lead][0])
    total = [[0.0] * categories for _ in range(images)]
    for own in probabilities:

        def agreement(order, own=own):
            return sum(own[i][order[k]] * probabilities[lead][i][k] for i in range(images) for k in range(categories))

        best = max(permutations(range(categories)), key=agreement)
        for i in range(images):
            for k in range(categories):
                total[i][k] += own[i][best[k]] / len(probabilities)
    return total
