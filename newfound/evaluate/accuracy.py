"""How well clusters and true classes agree, whatever the clusters are called: accuracy by matching, NMI and ARI."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from newfound.evaluate.labels import Labels, as_images


def contingency(predicted: Labels, truth: Labels, n_predicted: int, n_truth: int) -> np.ndarray:
    """The table [n_predicted, n_truth] of how many images of each cluster are of each class, both counted from 0."""
    predicted, truth = as_images(predicted, truth)
    if predicted.min() < 0 or predicted.max() >= n_predicted or truth.min() < 0 or truth.max() >= n_truth:
        raise ValueError(
            f"clusters must be in 0 to {n_predicted - 1} and classes in 0 to {n_truth - 1}; got clusters in "
            f"{predicted.min()} to {predicted.max()} and classes in {truth.min()} to {truth.max()}"
        )
    return np.bincount(predicted * n_truth + truth, minlength=n_predicted * n_truth).reshape(n_predicted, n_truth)


def match(predicted: Labels, truth: Labels) -> dict[Any, Any]:
    """The class each cluster stands for: the one-to-one mapping under which the most images are right.

    Clusters [N] and classes [N] are whole numbers or strings, and may differ in number; then some clusters or classes
    are left out. So is a cluster for which there is only a class that it shares no image with.
    """
    clusters, predicted, classes, truth = _numbered(predicted, truth)
    table = contingency(predicted, truth, len(clusters), len(classes))
    rows, columns = linear_sum_assignment(table, maximize=True)
    return {clusters[r].item(): classes[c].item() for r, c in zip(rows, columns, strict=True) if table[r, c]}


def clustering_accuracy(predicted: Labels, truth: Labels) -> float:
    """The share of images that are right under the best one-to-one mapping of clusters [N] to classes [N], 0 to 1:
    the Hungarian algorithm's."""
    clusters, predicted, classes, truth = _numbered(predicted, truth)
    table = contingency(predicted, truth, len(clusters), len(classes))
    return float(table[linear_sum_assignment(table, maximize=True)].sum() / len(truth))


def clustering_figures(predicted: Labels, truth: Labels) -> dict[str, float]:
    """ "accuracy" by matching, "nmi", the normalised mutual information (arithmetic mean), and "ari", the adjusted Rand
    index, of clusters [N] and classes [N]."""
    _, predicted, _, truth = _numbered(predicted, truth)
    return {
        "accuracy": clustering_accuracy(predicted, truth),
        "nmi": float(normalized_mutual_info_score(truth, predicted)),
        "ari": float(adjusted_rand_score(truth, predicted)),
    }


def _numbered(predicted: Labels, truth: Labels) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The clusters there are, and each image's among them; the classes there are, and each image's among them."""
    predicted, truth = as_images(predicted, truth)
    return *np.unique(predicted, return_inverse=True), *np.unique(truth, return_inverse=True)
