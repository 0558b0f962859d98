"""Whitening: the known categories say which variation of the features to ignore."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

NOTHING = 1e-12
"""Variance, as a share of that of all features, below which known categories do not vary within themselves."""


@torch.no_grad()
def whitening(features: Tensor, labels: Tensor, *, shrinkage: float, dimension: int) -> Tensor:
    """A linear map [d, D] to a space in which known categories vary alike in all directions.

    Of features [N, D], which have the mean 0, the first len(labels) are of known categories, ``labels`` [n] counted
    from 0. S is the covariance within these: the sum of (f - m)(f - m)^T, m the mean of f's own category, over n less
    the number of categories. It is shrunk towards the identity that has its mean eigenvalue, S' = (1 - s) S + s (trace
    S / D) I, and S'^(-1/2) does the whitening. Then come the d = min(dimension, D, N - 1) principal components of all
    N features. Where no category has two different images, S is taken as the identity.
    The map is scaled so that the mean length of a vector is 1.
    """
    # In double, on the CPU: eigenvectors of float32 depend on the machine more than their use should.
    everything, labels = features.double().cpu(), labels.cpu()
    known, members = everything[: len(labels)], F.one_hot(labels).double()
    counts = members.sum(0)
    means = (members.T @ known) / counts.clamp(min=1)[:, None]
    within = known - means[labels]
    covariance = within.T @ within / max(len(labels) - int((counts > 0).sum()), 1)
    identity = torch.eye(len(covariance), dtype=torch.float64)
    level = covariance.diagonal().mean()
    if level <= NOTHING * everything.square().mean():
        covariance, level = identity, torch.ones_like(level)
    values, vectors = torch.linalg.eigh((1 - shrinkage) * covariance + shrinkage * level * identity)
    whiten = (vectors * values.clamp(min=1e-9 * float(level)).rsqrt()) @ vectors.T
    white = everything @ whiten
    _, components = torch.linalg.eigh(white.T @ white)
    kept = components.flip(1)[:, : max(1, min(dimension, features.shape[1], len(features) - 1))]
    kept = kept * kept.gather(0, kept.abs().argmax(0, keepdim=True)).sign()  # of an eigenvector the sign is open
    length = (white @ kept).norm(dim=1).mean().clamp(min=NOTHING)
    return ((whiten @ kept).T / length).to(features)
