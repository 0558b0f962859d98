"""Naming the category of images that a run has never seen."""

from __future__ import annotations

from pathlib import Path

from newfound.data.cache import decode_cached
from newfound.data.folder import list_images
from newfound.engine.device import pick_device
from newfound.engine.features import read_features
from newfound.errors import UserError
from newfound.model import load_model
from newfound.progress import Reporter
from newfound.run import Run


def predict_paths(folder: Path, paths: list[Path], *, device: str, reporter: Reporter) -> list[tuple[str, str, float]]:
    """Image, category and probability for every readable image among files and folders, in the order given."""
    model = load_model(Run.open(folder).folder / "model")
    files = [file for path in paths for file in list_images(path)]
    size, channels = model.encoder.size, model.encoder.channels
    images, kept, skipped = decode_cached(files, size, channels=channels, cache=None, reporter=reporter)
    for file in skipped:
        reporter.warn(f"{file.file}: {file.reason}")
    if not len(kept):
        raise UserError(f"none of the {len(files)} files given is an image that can be read")
    logits = read_features(model, images, pick_device(device), reporter, title="predicting")
    sure, best = logits.softmax(1).max(1)
    return [(str(files[i]), model.classes[b], s) for i, b, s in zip(kept, best.tolist(), sure.tolist(), strict=True)]
