"""Figures of collections that are several tasks: each alphabet of OmniGlot is clustered, and judged, by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from newfound.evaluate.protocol import evaluate_unlabelled


def evaluate_tasks(
    predicted: Sequence[str], truth: Sequence[str | None], tasks: Mapping[str, np.ndarray]
) -> dict[str, Any]:
    """The figures of evaluate_unlabelled; of several tasks (rows by name), their plain mean, and each under "tasks"."""
    if len(tasks) == 1:
        return evaluate_unlabelled(predicted, truth)
    figures = {
        name: evaluate_unlabelled([predicted[i] for i in rows], [truth[i] for i in rows])
        for name, rows in tasks.items()
    }
    mean = {key: float(np.mean([f[key] for f in figures.values()])) for key in ("accuracy", "nmi", "ari")}
    total = {key: sum(int(f[key]) for f in figures.values()) for key in ("images", "classes")}
    return {**mean, **total, "tasks": figures}
