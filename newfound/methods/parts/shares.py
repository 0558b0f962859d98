"""How large the categories of a mixed pile may be: what labels are balanced to there."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from newfound.cluster.fixed import finer, kmeans_fixed
from newfound.data.collection import Collection
from newfound.engine.loop import Engine
from newfound.model import Encoder

TIMES = 10
"""How often shares are estimated in the course of a stage."""
STARTS = 3
"""Of the clustering that estimates them."""
EVEN = 0.1
"""The part of the pile that is spread evenly over all candidates, so that none is ruled out."""


def due(epoch: int, epochs: int) -> bool:
    """Whether shares are estimated before that epoch."""
    return epoch % -(-epochs // TIMES) == 0


@torch.no_grad()
def estimated_shares(encoder: Encoder, engine: Engine) -> Tensor:
    """The share of the pile that each candidate may have [candidates], by clusters of the encoder's features.

    Known categories are clusters to which their labelled images belong. Each has the share of the pile that joins it;
    novel ones have the rest in equal parts, as they have where nothing else is in the pile.
    """
    collection = engine.collection
    features = F.normalize(engine.features(encoder, engine.train_images, title="sizes in the pile"))
    labels = engine.labels[: collection.n_labelled]
    k = len(collection.classes) + finer(collection.n_novel, collection.n_unlabelled)
    found = kmeans_fixed(features, k, labels, starts=STARTS, seed=engine.seed).labels[collection.n_labelled :]
    return shares_of(found, collection)


def shares_of(found: Tensor, collection: Collection) -> Tensor:
    """The shares [candidates] that go with the clusters ``found`` [n_unlabelled] of the pile, of which the known
    categories are the first."""
    n_known, k = len(collection.classes), len(collection.candidates)
    sizes = torch.bincount(found.clamp(max=n_known), minlength=n_known + 1) / len(found)
    novel = sizes[n_known] / collection.n_novel
    shares = torch.cat([sizes[:n_known], novel.expand(collection.n_novel)])
    return (1 - EVEN) * shares + EVEN / k
