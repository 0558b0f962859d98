"""Naming the category of images that a run has never seen."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from newfound.data.cache import decode_cached
from newfound.data.embeddings import read_vectors
from newfound.data.folder import list_images
from newfound.data.store import ImageStore
from newfound.data.vectors import VectorStore
from newfound.engine.device import pick_device
from newfound.engine.features import read_features
from newfound.errors import UserError
from newfound.model import Model, load_model
from newfound.progress import Reporter
from newfound.run import Run


def predict_paths(folder: Path, paths: list[Path], *, device: str, reporter: Reporter) -> list[tuple[str, str, float]]:
    """Image, category and probability for every readable image among files and folders, in the order given."""
    model = load_model(Run.open(folder).folder / "model")
    given = model.encoder.network == "features"
    names, images = _given_features(model, paths) if given else _images(model, paths, reporter)
    logits = read_features(model, images, pick_device(device), reporter, title="predicting")
    sure, best = logits.softmax(1).max(1)
    return [(name, model.classes[b], s) for name, b, s in zip(names, best.tolist(), sure.tolist(), strict=True)]


def _images(model: Model, paths: list[Path], reporter: Reporter) -> tuple[list[str], ImageStore]:
    """The readable images among files and folders, with their names; of the others a warning says why not."""
    files = [file for path in paths for file in list_images(path)]
    size, channels = model.encoder.size, model.encoder.channels
    images, kept, skipped = decode_cached(files, size, channels=channels, cache=None, reporter=reporter)
    for file in skipped:
        reporter.warn(f"{file.file}: {file.reason}")
    if not len(kept):
        raise UserError(f"none of the {len(files)} files given is an image that can be read")
    return [str(files[i]) for i in kept], images


def _given_features(model: Model, paths: list[Path]) -> tuple[list[str], ImageStore]:
    """The rows of .npy files of features, called FILE:ROW from row 0."""
    names: list[str] = []
    tables = []
    for path in paths:
        if path.suffix != ".npy":
            raise UserError(f"this run was made of features: give .npy files of them, not {path}")
        table = read_vectors(path)
        if table.shape[1] != model.encoder.channels:
            found, wanted = table.shape[1], model.encoder.channels
            raise UserError(f"{path} has {found} numbers for each image, and the run was made of {wanted}")
        tables.append(table)
        names += [f"{path}:{row}" for row in range(len(table))]
    return names, VectorStore(np.concatenate(tables))
