"""The map: a t-SNE of at most 5,000 images, so that what the network finds alike lies together."""

from __future__ import annotations

import contextlib
import io
import re
import sys
from typing import TextIO

import numpy as np
import torch.nn.functional as F
from torch import Tensor

from newfound.progress import Progress, Reporter

MOST_POINTS = 5000
ITERATIONS = 500
DIMENSIONS = 64
ANGLE = 0.8
"""How coarsely t-SNE sums up far points. 5,000 images take two thirds of the time that they take at scikit-learn's 0.5.
The divergence is .1 % larger, and of an image's ten nearest 34.6 % stay so on the map, as against 34.8 %."""


def sample_points(assignments: np.ndarray, most: int, seed: int) -> np.ndarray:
    """At most ``most`` rows, ascending: all, or a random choice in which every category has a share that grows with the
    root of its size, so that small ones stay visible."""
    if len(assignments) <= most:
        return np.arange(len(assignments))
    rng = np.random.default_rng([seed, 0x3A9])
    shuffled = rng.permutation(len(assignments))
    by_category = shuffled[np.argsort(assignments[shuffled], kind="stable")]
    sizes = np.bincount(assignments)
    firsts = np.repeat(np.cumsum(sizes) - sizes, sizes)
    rank = np.empty(len(assignments))
    rank[by_category] = np.arange(len(assignments)) - firsts
    turn = rank / np.sqrt(sizes[assignments])
    return np.sort(shuffled[np.argsort(turn[shuffled], kind="stable")[:most]])


def draw_map(features: Tensor, seed: int, reporter: Reporter) -> np.ndarray:
    """Positions float32 [n, 2] of features [n, D] by t-SNE on their unit vectors, after PCA."""
    points = F.normalize(features.float()).cpu().double().numpy()
    if len(points) < 4 or not np.ptp(points, axis=0).any():  # nothing that t-SNE could tell apart
        angle = 2 * np.pi * np.arange(len(points)) / max(1, len(points))
        return np.stack([np.cos(angle), np.sin(angle)], 1).astype(np.float32)
    return _embed(points, seed, reporter)


def _embed(points: np.ndarray, seed: int, reporter: Reporter) -> np.ndarray:
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    points = PCA(min(DIMENSIONS, *points.shape), random_state=seed).fit_transform(points).astype(np.float32)
    start = points[:, :2] if points.shape[1] > 1 else np.repeat(points, 2, 1)
    start = start / max(float(start[:, 0].std()), 1e-12) * 1e-4  # as scikit-learn scales init="pca"
    tsne = TSNE(
        perplexity=min(30.0, (len(points) - 1) / 3), init=start, max_iter=ITERATIONS, angle=ANGLE,
        random_state=seed, verbose=2,
    )  # fmt: skip
    # One thread: the order in which several add up differs from call to call, and thousands of short parallel stretches
    # cost more than they bring (679 points: 1 s on one core; on two shared ones up to 20 s).
    with (
        reporter.task("drawing the map", ITERATIONS, "rounds") as task,
        threadpool_limits(1, "openmp"),
        contextlib.redirect_stdout(_Rounds(task, sys.stdout)),
    ):
        positions: np.ndarray = tsne.fit_transform(points)
    return positions.astype(np.float32)


class _Rounds(io.TextIOBase):
    """Takes the lines that scikit-learn prints every 50 rounds as progress, and lets all others through."""

    def __init__(self, task: Progress, beyond: TextIO) -> None:
        self._task, self._beyond, self._swallowed = task, beyond, False

    def write(self, text: str) -> int:
        if text.startswith("[t-SNE]"):
            self._swallowed = True
            if found := re.match(r"\[t-SNE\] Iteration (\d+):", text):
                self._task.advance(int(found[1]) - self._task.done)
        elif not (self._swallowed and text == "\n"):
            self._swallowed = False
            self._beyond.write(text)
        else:
            self._swallowed = False
        return len(text)
