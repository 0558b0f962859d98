"""Naming the category of images that a run has never seen."""

from __future__ import annotations

from pathlib import Path

from newfound.data.folder import decode_many, list_images
from newfound.errors import UserError
from newfound.estimator import load, match_channels
from newfound.progress import Reporter


def predict_paths(folder: Path, paths: list[Path], *, device: str, reporter: Reporter) -> list[tuple[str, str, float]]:
    """Image, category and probability for every readable image among files and folders, in the order given."""
    estimator = load(folder)
    estimator.device, estimator.verbose = device, not reporter.quiet
    files = [file for path in paths for file in (list_images(path) if path.is_dir() else [path])]
    encoder = estimator.model_.encoder
    images, kept, skipped = decode_many(files, encoder.size, reporter)
    for file in skipped:
        reporter.warn(f"{file.file}: {file.reason}")
    if not len(kept):
        raise UserError(f"none of the {len(files)} files given is an image that can be read")
    pixels = match_channels(images, encoder.channels).transpose(0, 2, 3, 1)
    probabilities = estimator.predict_proba(pixels)
    best = probabilities.argmax(1)
    sure = probabilities.max(1)
    return [(str(files[i]), str(estimator.classes_[b]), float(s)) for i, b, s in zip(kept, best, sure, strict=True)]
