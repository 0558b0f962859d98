"""Whether images of known categories hide in the pile."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F

from newfound.cluster.fixed import finer, kmeans_fixed
from newfound.cluster.whitening import whitening
from newfound.data.collection import Collection
from newfound.methods.base import Outcome
from newfound.trust.gauges import found_in

STARTS = 3
"""Of the clustering."""
MAX_IMAGES = 5000
"""Images of the pile, and of the known categories, that are looked at."""
SHRINKAGE, DIMENSION = 0.5, 64
"""Of the whitening by the known categories, as apl-features has it."""


@torch.no_grad()
def share_within(collection: Collection, outcome: Outcome, seed: int) -> float | None:
    """The share of the pile that joins known categories, where these are clusters to which their labelled images
    belong and there are new clusters beside them. None where the outcome has no features, or images are too few.

    Features that no label has touched are whitened by the known categories; learned ones are taken as they are.
    """
    features = outcome.backbone_features if outcome.backbone_features is not None else found_in(outcome)
    n_known, first = len(collection.classes), collection.n_labelled
    if features is None or len(collection.tasks) > 1:
        return None
    rng = np.random.default_rng([seed, 0x3171])
    chosen = rng.permutation(first)[:MAX_IMAGES]
    labels = torch.from_numpy(collection.labels[chosen])
    pile = first + rng.permutation(collection.n_unlabelled)[:MAX_IMAGES]
    new = finer(collection.n_novel, len(pile))
    if len(pile) < 2 or len(labels.unique()) < n_known:
        return None
    rows = torch.from_numpy(np.concatenate([chosen, pile])).to(features.device)
    seen = features[rows].float().cpu()
    if outcome.backbone_features is not None:
        seen = F.normalize(seen - seen.mean(0))
        seen = seen - seen.mean(0)
        seen = seen @ whitening(seen, labels, shrinkage=SHRINKAGE, dimension=DIMENSION).T
    clusters = kmeans_fixed(F.normalize(seen), n_known + new, labels, starts=STARTS, seed=seed)
    return float((clusters.labels[len(labels) :] < n_known).float().mean())
