"""The features of a frozen network that a run keeps of its images, so that it can be grown when these are gone."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError

from newfound.data.collection import Reading
from newfound.data.vectors import VectorStore
from newfound.engine.frozen import Kept
from newfound.errors import UserError
from newfound.files import write_bytes
from newfound.methods.base import Method, Outcome
from newfound.plan.call import Call
from newfound.progress import Reporter
from newfound.runfolder import Run
from newfound.tensors import pack, read_tensors

NAME, GONE = "features.safetensors", "known.safetensors"
"""What a run keeps of its own images, and what a grown run was given of images that are gone."""
MOST = 100_000
"""Images whose features are kept: at 1,280 numbers 512 MB. A run of more needs its images to be grown."""


@dataclass(frozen=True)
class Remembered:
    """Digests [n, 16] and features [n, D] of images, in float32, their paths [n], and which known category [n] each
    has; -1 for images of the pile."""

    digests: np.ndarray
    features: np.ndarray
    paths: tuple[str, ...]
    labels: np.ndarray

    def rows(self) -> dict[str, int]:
        """The row of each image, by its path."""
        return {path: row for row, path in enumerate(self.paths)}


def remember(run: Run, reading: Reading, outcome: Outcome, method: Method) -> None:
    """Keep the features of the run's images, if its network is one that others have trained and that stays as it is."""
    source, collection, features = run.call.source, reading.collection, outcome.backbone_features
    wanted = not source.dataset and method.kept_as() and not isinstance(collection.train, VectorStore)
    if not wanted or features is None or len(features) > MOST:
        return
    paths = [os.path.join(source.labelled or "", name) for name in reading.names.labelled]
    paths += [os.path.join(source.unlabelled or "", name) for name in reading.names.unlabelled]
    text = "\0".join(paths).encode("utf-8", errors="surrogateescape")
    tensors = {
        "digests": collection.train.digests(),
        "features": features.cpu().float().numpy(),
        "labels": collection.labels.astype(np.int32),
        "paths": np.frombuffer(text, np.uint8),
    }
    write_bytes(run.folder / NAME, _packed(tensors))


def read_remembered(run: Run, width: int) -> Remembered | None:
    """What the run keeps of its images, whose network gives ``width`` numbers; None where it keeps nothing."""
    path, n_known = run.folder / NAME, len(run.read_result()["known"])
    if not path.exists():
        return None
    try:
        tensors = _read(path)
        paths = tuple(tensors["paths"].tobytes().decode("utf-8", errors="surrogateescape").split("\0"))
        found = Remembered(tensors["digests"], tensors["features"], paths, tensors["labels"].astype(np.int64))
        n = len(paths)
        _check_shapes(found.digests, found.features, n, width)
        if found.labels.shape != (n,) or found.labels.min() < -1 or found.labels.max() >= n_known:
            raise ValueError("labels of no category")
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path} does not hold the features of this run's images: {error}; remove it") from None
    return found


def _packed(arrays: dict[str, np.ndarray]) -> bytes:
    return pack({name: torch.from_numpy(np.array(value, order="C")) for name, value in arrays.items()})


def _read(path: Path) -> dict[str, np.ndarray]:
    return {name: value.numpy() for name, value in read_tensors(path).items()}


def _check_shapes(digests: np.ndarray, features: np.ndarray, n: int, width: int) -> None:
    if digests.dtype != np.uint8 or digests.shape != (n, 16):
        raise ValueError(f"digests of shape {list(digests.shape)}")
    if features.dtype != np.float32 or features.shape != (n, width) or not np.isfinite(features).all():
        raise ValueError(f"features of shape {list(features.shape)}, or such as are no numbers")


def hand_on(remembered: Remembered, rows: list[int], folder: Path) -> None:
    """Give a run in that folder what is kept of the images ``rows``."""
    tensors = {"digests": remembered.digests[rows], "features": remembered.features[rows]}
    write_bytes(folder / GONE, _packed(tensors))


def recall(call: Call, method: Method, shape: tuple[int, int, int], reporter: Reporter) -> None:
    """Put the features that a grown run was given of images that are gone into the cache, where methods look."""
    assert call.source.known
    path = Path(call.source.known).with_name(GONE)
    if not path.exists():
        return
    try:
        tensors = _read(path)
        digests, features = tensors["digests"], tensors["features"]
        _check_shapes(digests, features, len(digests), features.shape[1])
    except (OSError, SafetensorError, KeyError, TypeError, ValueError, IndexError) as error:
        raise UserError(f"{path} does not hold the features of images that are gone: {error}") from None
    names = [row.tobytes() for row in digests]
    kept = Kept(Path(call.cache), method.kept_as(), shape, torch.device(call.device), reporter)
    known = kept.find(names)
    first = {name: row for row, name in reversed(list(enumerate(names))) if name not in known}
    if first:
        kept.add(list(first), features[list(first.values())])
    if kept.folder is None:
        raise UserError(f"features of images that are gone cannot be put into the cache {call.cache}: choose --cache")
