"""The number by what known categories own: cut so fine that each hidden one has a cluster of its own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from newfound.count.sample import Fold, Sample, folds
from newfound.count.tree import Tree, mean_shift

ROUNDS = (0, 2)
"""Of the mean shift, in each of the trees that are averaged."""
MATCHINGS, SETTLED = 8, 0.03
"""How often, at the most, sizes are brought into line with the number found so far, and the change that ends it."""
LARGER_KNOWN, LARGER_NOVEL = 1.3, 1.1
"""How many times as large known categories, or novel ones, may be. Fewer known images raise the number, and that calls
for fewer still: so chance would be magnified if the first were as strict as the second."""
CLOSE, FLAT = 0.03, 0.3
"""How close to one cluster is close, and how long the curve may be so, as a share of the number."""
STEP = 1.12
"""From one number to try to the next."""
RESAMPLES = 200


@dataclass(frozen=True)
class Owned:
    """The estimate, its standard error as a share of it, and the curve that it comes from: numbers of novel categories
    [T] and the clusters that a hidden category owns then, on average [T]."""

    estimate: float
    error: float
    numbers: np.ndarray
    clusters: np.ndarray


def by_owned(sample: Sample, most: int, seed: int) -> Owned:
    """The number of novel categories at which hidden known categories own one cluster each.

    By turns a third of the known categories is hidden in the pile, and the others whiten the features. Ward's tree
    joins hidden and novel images alike. Cut into as many clusters as categories are hidden and ``u`` more, it gives a
    hidden category the sum over clusters of its share of their images: less than one cluster where categories were
    merged, more where they were split. The estimate is the ``u`` at which the mean over all known categories passes 1.

    Ward's tree splits large categories sooner than small ones. So images are left out until known categories are about
    as large as those of the pile would be by the number found so far.
    """
    rng = np.random.default_rng([seed, 0x04ED])
    order = rng.permutation(sample.n_known)
    known, pile = len(sample.labels) / sample.n_known, len(sample.pile)
    found = _once(sample, order, most, seed)
    for _ in range(MATCHINGS):
        before, size = found, max(2.0, min(known, pile / found.estimate))
        if known < LARGER_KNOWN * size and pile / found.estimate < LARGER_NOVEL * size:
            break
        some = sample.thinned(round(size), max(4, round(size * found.estimate)), rng)
        found = _once(some, order, max(2, min(most, len(some.pile) // 2)), seed)
        if abs(found.estimate / before.estimate - 1) < SETTLED:
            break
    return found


def _once(sample: Sample, order: np.ndarray, most: int, seed: int) -> Owned:
    numbers = candidates(most)
    found = [_of_fold(fold, numbers) for fold in folds(sample, order)]
    curves, gaps = np.concatenate([owned for owned, _ in found]), np.mean([gap for _, gap in found], axis=0)
    rng, n = np.random.default_rng([seed, 0xB007]), len(curves)
    again = [_passing(numbers, curves[rng.integers(n, size=n)].mean(0), gaps) for _ in range(RESAMPLES)]
    estimate = _passing(numbers, curves.mean(0), gaps)
    return Owned(estimate, float(np.std(again) / estimate) if n > 1 else 1.0, numbers, curves.mean(0))


def _of_fold(fold: Fold, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The clusters that each hidden category owns, [hidden categories, numbers], and the gaps of the tree at all
    numbers from 1 to the last [most]: means over the trees."""
    categories, own = np.unique(fold.hidden, return_inverse=True)
    owned, gaps = np.zeros((len(categories), len(numbers))), np.zeros(numbers[-1])
    for rounds in ROUNDS:
        tree = Tree(mean_shift(fold.features, rounds))
        gaps += tree.gaps(len(categories) + np.arange(1, numbers[-1] + 1)) / len(ROUNDS)
        for place, number in enumerate(numbers):
            cluster = tree.cut(len(categories) + int(number))
            members = np.bincount(cluster)
            table = np.zeros((len(categories), len(members)))
            np.add.at(table, (own, cluster[: len(own)]), 1)
            owned[:, place] += (table / members).sum(1) / len(ROUNDS)
    return owned, gaps


def candidates(most: int) -> np.ndarray:
    """Numbers to try, 1 to ``most``, ever farther apart."""
    numbers = [1]
    while numbers[-1] < most:
        numbers.append(min(most, max(numbers[-1] + 1, round(numbers[-1] * STEP))))
    return np.array(numbers)


def _passing(numbers: np.ndarray, clusters: np.ndarray, gaps: np.ndarray) -> float:
    """Where the curve passes 1: halfway between where it comes close to 1 from below and where it leaves it upwards.

    Categories that are far apart keep a cluster each over many numbers: of these the one is taken at which the tree has
    its widest gap.
    """
    low, high = (_reaches(numbers, clusters, height) for height in (1 - CLOSE, 1 + CLOSE))
    if high - low <= max(1.0, FLAT * low):
        return (low + high) / 2
    first, last = int(np.ceil(low)), int(np.floor(high))
    return float(first + gaps[first - 1 : last].argmax())


def _reaches(numbers: np.ndarray, clusters: np.ndarray, height: float) -> float:
    """Where the curve reaches that height for the first time, between two numbers by a straight line."""
    above = np.flatnonzero(clusters >= height)
    if not len(above):
        return float(numbers[-1])
    place = int(above[0])
    if place == 0:
        return float(numbers[0])
    low, high = clusters[place - 1], clusters[place]
    return float(numbers[place - 1] + (height - low) / (high - low) * (numbers[place] - numbers[place - 1]))
