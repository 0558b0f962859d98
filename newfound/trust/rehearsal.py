"""Known categories hidden in the pile: what a method makes of them says what its result is worth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from newfound.cluster.kmeans import kmeans
from newfound.data.collection import Collection
from newfound.evaluate.accuracy import match
from newfound.methods.base import Method, Outcome

FOLDS, STARTS = 3, 5
"""Parts that the known categories are hidden in, one after another, and starts of k-means on plain features."""
MAX_IMAGES = 5000
"""Images of the pile, and of the known categories, that a rehearsal looks at."""
FEWEST = 8
"""Images that the spread of a category is measured on, at the least."""


@dataclass(frozen=True)
class Rehearsal:
    """What became of the hidden images. ``margin`` [n] says how clearly each lies in its group, ``right`` [n] whether
    that group is its category's. ``right_plain`` is the share of images that k-means on plain features gets right.
    ``spreads`` has the spread of each hidden category that has enough images."""

    margin: np.ndarray
    right: np.ndarray
    right_plain: float
    spreads: np.ndarray


@torch.no_grad()
def rehearse(collection: Collection, outcome: Outcome, method: Method, seed: int) -> Rehearsal | None:
    """Hide a third of the known categories in the pile, find them by what the others say, and so on by turns.

    Hidden categories are as large as those of the pile are on average, so that the task is about as hard. None where
    that is impossible: labels have trained the network, the method has no rehearsal, there is one known category, the
    collection is several tasks, or it is a mixed pile, in which known categories are no secret.
    """
    first, k = collection.n_labelled, len(collection.candidates)
    labels, n = collection.labels[:first], len(collection.classes)
    if outcome.backbone_features is None or n < 2 or len(collection.tasks) > 1 or collection.mixed:
        return None
    features, rng = outcome.backbone_features.cpu().float(), np.random.default_rng([seed, 0x4E4])
    size = max(2, min(first // n, collection.n_unlabelled // k, MAX_IMAGES // max(n, k)))
    pile = first + rng.permutation(collection.n_unlabelled)[: size * k]
    members = [rng.permutation(np.flatnonzero(labels == category))[:size] for category in range(n)]
    order = rng.permutation(n)
    margins, rights, plain, spreads = [], [], [], []
    for fold in range(min(FOLDS, n)):
        hidden, others = order[fold :: min(FOLDS, n)], np.sort(np.delete(order, np.s_[fold :: min(FOLDS, n)]))
        known = np.concatenate([members[category] for category in others])
        own = np.concatenate([members[category] for category in hidden])
        rows = features[torch.from_numpy(np.concatenate([known, own, pile]))]
        numbers = torch.from_numpy(np.searchsorted(others, labels[known]))
        found = method.regroup(rows, numbers, k + len(hidden), fold)
        if found is None:
            return None
        groups, seen = found[0].numpy(), found[1]
        truth = labels[own]
        margins.append(margin(seen, groups)[: len(own)])
        rights.append(_right(groups, truth))
        again = kmeans(rows[len(known) :], k + len(hidden), starts=STARTS, seed=fold).labels.numpy()
        plain.append(_right(again, truth))
        spreads += [spread(seen[: len(own)][torch.from_numpy(truth == category)]) for category in hidden]
    measured = np.array([value for value in spreads if value is not None])
    return Rehearsal(np.concatenate(margins), np.concatenate(rights), float(np.concatenate(plain).mean()), measured)


def _right(groups: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Whether each of the hidden images, the first of ``groups`` [n], is in the group that stands for its category
    ``truth``. A group that holds more of the pile than of the category stands for something in the pile."""
    own = groups[: len(truth)]
    pile = np.bincount(groups[len(truth) :], minlength=groups.max() + 1)
    meaning = {g: c for g, c in match(own, truth).items() if ((own == g) & (truth == c)).sum() > pile[g]}
    return np.array([meaning.get(int(group)) == category for group, category in zip(own, truth, strict=True)])


@torch.no_grad()
def margin(features: Tensor, groups: np.ndarray) -> np.ndarray:
    """How much nearer each of the features [n, D] is to the mean of the others of its group than to the next group's:
    the difference of the cosines [n]. An image that is alone in its group has the smallest, -2."""
    unit, group = F.normalize(features.float().cpu()), torch.from_numpy(groups)
    k = int(group.max()) + 1
    sums, sizes = torch.zeros(k, unit.shape[1]).index_add_(0, group, unit), torch.bincount(group)
    own = (unit * F.normalize(sums[group] - unit)).sum(1)
    cosines = (unit @ F.normalize(sums).T).masked_fill(sizes == 0, -1.0)
    other = cosines.scatter(1, group[:, None], -1.0).amax(1)
    return torch.where(sizes[group] > 1, own - other, -2.0).numpy()


def spread(features: Tensor) -> float | None:
    """How unlike each other features [n, D] are: 1 less the mean cosine of two of them; None where they are few."""
    n = len(features)
    if n < FEWEST:
        return None
    total = F.normalize(features.float().cpu()).sum(0)
    return 1 - (float(total @ total) - n) / (n * (n - 1))
