"""Snapshots: what a network makes of some of the unlabelled images at the end of chosen epochs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from newfound.data.collection import Collection
from newfound.files import make_folder, write_bytes
from newfound.tensors import pack

if TYPE_CHECKING:
    from newfound.engine.loop import Engine
    from newfound.engine.stage import Stage

SNAPSHOTS = "snapshots"
"""The folder of a run that has them."""
MOST_IMAGES = 5000
"""Unlabelled images in a snapshot: all, or a random choice."""


@dataclass(frozen=True)
class Snapshots:
    """The folder ``snapshots/`` of a run: STAGE-EPOCH.safetensors has ``features`` [n, D] at the end of that epoch, and
    ``images`` [n], the rows of assignments.csv (from 0) that they belong to."""

    folder: Path
    wanted: frozenset[tuple[str, int]]
    """Plans of the settings, and epochs of them."""
    rows: np.ndarray
    """The images [n] among the training images, and their rows [n] of assignments.csv."""
    images: np.ndarray

    def take(self, stage: Stage, epoch: int, engine: Engine) -> None:
        """Write the snapshot of the epoch that has just ended, if it is wanted; a stage without features has none."""
        if (stage.settings_key, epoch) not in self.wanted:
            return
        features = stage.snapshot(self.rows, engine)
        if features is not None:
            make_folder(self.folder)
            content = pack({"features": features, "images": torch.from_numpy(self.images)})
            write_bytes(self.folder / f"{stage.name}-{epoch:05d}.safetensors", content, self.folder.parent)


def make_snapshots(
    folder: Path, wanted: Sequence[tuple[str, int]], collection: Collection, names: Sequence[str], seed: int
) -> Snapshots:
    """Snapshots of the same images whenever they are taken; ``names`` [n_unlabelled] are what assignments.csv has.

    Stops before anything is trained where a file stands in the folder's place.
    """
    if os.path.lexists(folder):
        make_folder(folder)
    rng = np.random.default_rng([seed, 0x54A9])
    chosen = rng.permutation(collection.n_unlabelled)[:MOST_IMAGES]
    place = np.empty(len(names), np.int64)
    place[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
    chosen = chosen[np.argsort(place[chosen])]
    return Snapshots(folder, frozenset(wanted), collection.n_labelled + chosen, place[chosen])
