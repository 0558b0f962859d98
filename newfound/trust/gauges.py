"""Can the categories of a run be trusted? Gauges that need no answer, and what to tell the person."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.metrics import adjusted_rand_score
from torch import Tensor

from newfound.cluster.kmeans import kmeans
from newfound.config.settings import APLSettings, FeatureSettings, KMeansSettings, Settings
from newfound.data.collection import Collection
from newfound.evaluate.accuracy import clustering_accuracy
from newfound.methods.apl_features.method import start_whitened
from newfound.methods.base import Outcome
from newfound.methods.kmeans import cluster
from newfound.nets.heads import Whitened

FEW, FEW_KNOWN, STRAY = 10, 5, 2
"""Images of a category in the pile and of a known one below which, of a found one up to which, a warning is due."""
STABLE, REHEARSED, PARTED = 0.7, 0.7, 0.65
"""What gauges should reach: docs/trust.md has what was found below and above."""
MOST = 5000
"""Images of the pile, and of the known categories, that gauges look at."""
STARTS, DRAWS = 5, 2
SAMPLE, SMALLEST = 40, 5
"""Images of a category that are held against its neighbour's, at the most and at the least."""


def gauge(collection: Collection, outcome: Outcome, settings: Settings, seed: int) -> dict[str, float]:
    """The gauges that can be read, each from 0 to 1, of a collection of one task.

    "stability" is the adjusted Rand index of the categories and of a clustering of a random four fifths of the pile, by
    the method's own algorithm, in the features before self-training drew them together. "rehearsal" is the share of the
    images of known categories that are found again when these play the novel ones; it needs features that the labels
    have not touched. "parted" is how far apart the two found categories are that are least so.
    """
    gauges = {}
    first, k = collection.n_labelled, collection.n_novel
    rng = np.random.default_rng([seed, 0x7B57])
    before = outcome.before if outcome.before is not None else outcome.features
    if before is not None and k > 1 and collection.n_unlabelled >= 2 * k:
        gauges["stability"] = _stability(before[first:], outcome.assignments, k, settings, rng)
    if (pair := least_parted(collection, outcome)) is not None:
        gauges["parted"] = pair[0]
    if outcome.plain is not None and isinstance(settings, FeatureSettings):
        labels = torch.from_numpy(collection.labels[:first])
        rehearsed = _rehearsal(outcome.plain[:first].cpu(), labels, k, settings, rng)
        gauges |= {} if rehearsed is None else {"rehearsal": rehearsed}
    return gauges


def _stability(pile: Tensor, found: np.ndarray, k: int, settings: Settings, rng: np.random.Generator) -> float:
    assert isinstance(settings, KMeansSettings | APLSettings | FeatureSettings)
    part = rng.permutation(len(pile))[: min(MOST, max(k, len(pile) * 4 // 5))]
    again = cluster(pile[torch.from_numpy(part).to(pile.device)], k, settings.cluster, seed=int(rng.integers(2**31)))
    return float(adjusted_rand_score(found[part], again.labels.cpu().numpy()))


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
    features = outcome.before if outcome.before is not None else outcome.features
    if features is None:
        return {}
    pile = features[collection.n_labelled :]
    rows = [np.flatnonzero(outcome.assignments == category)[:SAMPLE] for category in range(collection.n_novel)]
    some = {category: pile[torch.from_numpy(own).to(pile.device)] for category, own in enumerate(rows)}
    return {category: F.normalize(own.float()).cpu() for category, own in some.items()}


def _parted(one: Tensor, other: Tensor) -> float:
    """Of the n - 1 nearest to each of n features of both groups, the share that is of its own group, in the mean."""
    n = min(len(one), len(other))
    both, own = torch.cat([one[:n], other[:n]]), torch.arange(2 * n) // n
    near = (both @ both.T).fill_diagonal_(-2).topk(n - 1, dim=1).indices
    return float((own[near] == own[:, None]).float().mean())


@torch.no_grad()
def _rehearsal(
    features: Tensor, labels: Tensor, k: int, settings: FeatureSettings, rng: np.random.Generator
) -> float | None:
    """Half of the known categories, or as many as are looked for, are hidden; the others whiten the features [n, D],
    k-means finds the hidden ones. None where there are fewer than four categories."""
    n = int(labels.max()) + 1
    hide = min(k, n // 2)
    if hide < 2:
        return None
    rows = rng.permutation(len(features))[:MOST]
    features, truth = features[torch.from_numpy(rows)], labels.numpy()[rows]
    found = []
    for turn in range(DRAWS):
        hidden = np.isin(truth, rng.permutation(n)[:hide])
        if hidden.sum() <= hide or hidden.all():
            continue
        order = np.concatenate([np.flatnonzero(~hidden), np.flatnonzero(hidden)])
        known = np.unique(truth[~hidden], return_inverse=True)[1]
        project = Whitened(
            features.shape[1], max(1, min(settings.whitening.dimension, len(order) - 1, features.shape[1]))
        )
        inputs = start_whitened(project, features[torch.from_numpy(order)], torch.from_numpy(known), settings)
        white = F.normalize(project.linear(inputs))
        clusters = kmeans(white[len(known) :], hide, starts=STARTS, seed=turn).labels.numpy()
        found.append(clustering_accuracy(clusters, np.unique(truth[hidden], return_inverse=True)[1]))
    return float(np.mean(found)) if found else None


def doubts(collection: Collection, outcome: Outcome, gauges: dict[str, float], novel: Sequence[str]) -> dict[str, str]:
    """Sentences that say why the categories may not be trusted, by what they are about; none where nothing speaks
    against them. Where no label has taught the network, few known images and a large category tell nothing
    (docs/trust.md)."""
    sizes = np.bincount(outcome.assignments, minlength=collection.n_novel)
    known = np.bincount(collection.labels[: collection.n_labelled], minlength=len(collection.classes))
    warnings = {}
    if collection.n_unlabelled < FEW * collection.n_novel:
        few = f"{collection.n_unlabelled} images for {collection.n_novel} categories"
        warnings["few"] = f"the pile has {few}: with fewer than {FEW} a category many will be wrong"
    poor, learns = int((known < FEW_KNOWN).sum()), outcome.plain is None
    if poor and learns:
        warnings["few known"] = (
            f"{poor} of the {len(known)} known categories have fewer than {FEW_KNOWN} images: they say little of what "
            "may vary within a category"
        )
    if gauges.get("rehearsal", 1) < REHEARSED:
        warnings["rehearsal"] = (
            f"known categories that play the novel ones are found again for {gauges['rehearsal']:.0%} of their images "
            "only: the features may not suit these images"
        )
    if gauges.get("stability", 1) < STABLE:
        warnings["stability"] = (
            f"a clustering of a part of the pile agrees little (adjusted Rand index {gauges['stability']:.2f}): the "
            "categories are one way of many to part it; try another --novel, or more images"
        )
    pair = least_parted(collection, outcome) if gauges.get("parted", 1) < PARTED else None
    if pair is not None:
        warnings["parted"] = (
            f"{novel[pair[1]]} and {novel[pair[2]]} run into each other: they may be one category cut in two, as "
            "happens where it is far larger than the others or --novel is too large"
        )
    if (stray := int((sizes <= STRAY).sum())) > 0:
        some = "1 category has" if stray == 1 else f"{stray} categories have"
        warnings["strays"] = f"{some} {STRAY} images or fewer: strays rather than a category"
    if learns and collection.n_novel > 2 and 2 * sizes.max() > collection.n_unlabelled:
        share = f"{sizes.max() / collection.n_unlabelled:.0%} of the pile"
        name = novel[int(sizes.argmax())]
        warnings["largest"] = f"{name} has {share}: it may be several categories that were not parted"
    return warnings
