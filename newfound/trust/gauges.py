"""Gauges of whether a result can be trusted, none of which needs the answers."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.metrics import adjusted_rand_score
from torch import Tensor

from newfound.data.collection import Collection
from newfound.evaluate.accuracy import clustering_accuracy
from newfound.methods.base import Method, Outcome

MAX_IMAGES = 5000
"""Images of the pile, and of the known categories, that gauges look at."""
DRAWS = 2
"""Of the known categories that play the novel ones."""
SAMPLE, SMALLEST = 40, 5
"""Images of a category that are held against its neighbour's, at the most and at the least."""


def gauge(collection: Collection, outcome: Outcome, method: Method, seed: int) -> dict[str, float]:
    """The gauges that can be read, each from 0 to 1, of a collection of one task.

    "stability" is the adjusted Rand index of the categories and of a clustering of a random four fifths of the pile, by
    the method's own algorithm, in the features before self-training drew them together. "rehearsal" is the share of the
    images of known categories that are found again when these play the novel ones; it needs features that the labels
    have not touched. "parted" is how far apart the two found categories are that are least so. "plain" is the share of
    images that k-means on the plain features of the network groups alike.
    """
    gauges = {}
    first, k = collection.n_labelled, collection.n_novel
    rng = np.random.default_rng([seed, 0x7B57])
    before = found_in(outcome)
    if before is not None and k > 1 and collection.n_unlabelled >= 2 * k:
        gauges["stability"] = _stability(before, collection, outcome.assignments, method, rng)
    if (pair := least_parted(collection, outcome)) is not None:
        gauges["parted"] = pair[0]
    if "plain" in outcome.earlier:
        gauges["plain"] = clustering_accuracy(outcome.earlier["plain"], outcome.assignments)
    if outcome.backbone_features is not None:
        labels = torch.from_numpy(collection.labels[:first])
        rehearsed = _rehearsal(outcome.backbone_features[:first].cpu(), labels, k, method, rng)
        gauges |= {} if rehearsed is None else {"rehearsal": rehearsed}
    return gauges


def found_in(outcome: Outcome) -> Tensor | None:
    """The features [n_train, D] that the categories were found in, from before self-training drew them together."""
    before = outcome.features_before_stage2
    return outcome.features if before is None else before


def _stability(
    features: Tensor, collection: Collection, found: np.ndarray, method: Method, rng: np.random.Generator
) -> float:
    first, k = collection.n_labelled, len(collection.candidates)
    part = rng.permutation(len(found))[: min(MAX_IMAGES, max(k, len(found) * 4 // 5))]
    rows, known = first + part, None
    if collection.mixed:
        rows, known = np.concatenate([np.arange(first), rows]), torch.from_numpy(collection.labels[:first])
        known = known.to(features.device)
    some = features[torch.from_numpy(rows).to(features.device)]
    again = method.cluster(some, k, int(rng.integers(2**31)), *([] if known is None else [known]))
    return float(adjusted_rand_score(found[part], again[-len(part) :].cpu().numpy()))


def least_parted(collection: Collection, outcome: Outcome) -> tuple[float, int, int] | None:
    """How well the two found categories are parted that are least so, from 0 to 1, and which they are.

    Each is held against the one with the nearest mean. Far apart they give 1, halves of one category a half to two
    thirds. None where no two categories have five images.
    """
    members = {c: some for c, some in _members(collection, outcome).items() if len(some) >= SMALLEST}
    if len(members) < 2:
        return None
    names = list(members)
    means = F.normalize(torch.stack([some.mean(0) for some in members.values()]))
    nearest = (means @ means.T).fill_diagonal_(-2).argmax(1).tolist()
    pairs = sorted({(min(i, j), max(i, j)) for i, j in enumerate(nearest)})
    return min((_parted(members[names[i]], members[names[j]]), names[i], names[j]) for i, j in pairs)


def _members(collection: Collection, outcome: Outcome) -> dict[int, Tensor]:
    """Of each found category some unit features from before self-training [n, D]. The pile is in random order, so the
    first ones are a random choice."""
    features = found_in(outcome)
    if features is None:
        return {}
    pile = features[collection.n_labelled :]
    rows = {int(c): np.flatnonzero(outcome.assignments == c)[:SAMPLE] for c in collection.candidates}
    some = {category: pile[torch.from_numpy(own).to(pile.device)] for category, own in rows.items()}
    return {category: F.normalize(own.float()).cpu() for category, own in some.items()}


def _parted(one: Tensor, other: Tensor) -> float:
    """Of the n - 1 nearest to each of n features of both groups, the share that is of its own group, in the mean."""
    n = min(len(one), len(other))
    both, own = torch.cat([one[:n], other[:n]]), torch.arange(2 * n) // n
    near = (both @ both.T).fill_diagonal_(-2).topk(n - 1, dim=1).indices
    return float((own[near] == own[:, None]).float().mean())


@torch.no_grad()
def _rehearsal(features: Tensor, labels: Tensor, k: int, method: Method, rng: np.random.Generator) -> float | None:
    """Half of the known categories, or as many as are looked for, are hidden among features [n, D] of known images; the
    method finds them from the others. None where there are fewer than four categories, or it has no rehearsal."""
    n = int(labels.max()) + 1
    hide = min(k, n // 2)
    if hide < 2:
        return None
    rows = rng.permutation(len(features))[:MAX_IMAGES]
    features, truth = features[torch.from_numpy(rows)], labels.numpy()[rows]
    found = []
    for turn in range(DRAWS):
        hidden = np.isin(truth, rng.permutation(n)[:hide])
        if hidden.sum() <= hide or hidden.all():
            continue
        order = np.concatenate([np.flatnonzero(~hidden), np.flatnonzero(hidden)])
        known = np.unique(truth[~hidden], return_inverse=True)[1]
        regrouped = method.regroup(features[torch.from_numpy(order)], torch.from_numpy(known), hide, turn)
        if regrouped is None:
            return None
        found.append(clustering_accuracy(regrouped[0].numpy(), np.unique(truth[hidden], return_inverse=True)[1]))
    return float(np.mean(found)) if found else None
