"""Making the page of a finished run again."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from newfound.discovery import read_call
from newfound.engine.device import pick_device
from newfound.engine.loop import Engine
from newfound.errors import UserError
from newfound.model import load_model
from newfound.progress import Reporter
from newfound.report.keep import Kept, keep, read_kept
from newfound.report.page import write_page
from newfound.run import Run


def report(folder: Path, *, device: str, reporter: Reporter) -> Path:
    """Write the page of a finished run; gives its path.

    What the page shows of the images was kept by the run. Where that is missing, it is made from the images, if they
    are still there; otherwise the page has no pictures and no map.
    """
    run = Run.open(folder)
    run.read_result()  # stops if the run is not finished
    with run.locked():
        try:
            kept = read_kept(run)
        except UserError as error:
            reporter.warn(f"{error}; it is made again from the images")
            kept = None
        if kept is None:
            try:
                kept = _keep_again(run, device, reporter)
            except UserError as error:
                reporter.warn(f"{error}; the page has no pictures and no map")
        return write_page(run, kept)


def _keep_again(run: Run, device: str, reporter: Reporter) -> Kept:
    model = load_model(run.folder / "model")
    reading = read_call(run.call, run.settings, reporter)
    run.remember(reading.collection)
    engine = Engine(reading.collection, pick_device(device), seed=run.call.seed, reporter=reporter)
    features = engine.features(model, engine.train_images, title="reading features", of=model.features)
    row_of = {row["image"]: row for row in run.read_assignments()}
    number = {name: i for i, name in enumerate(model.novel)}
    try:
        found = [row_of[name] for name in reading.names.unlabelled]
        assignments = np.array([number[row["category"]] for row in found])
        confidence = np.array([float(row["confidence"]) for row in found])
    except (KeyError, ValueError) as error:
        raise UserError(f"assignments.csv of {run.folder} does not fit the images: {error!r}") from None
    return keep(
        run, reading.collection, reading.names.unlabelled, features, assignments, confidence, len(model.novel), reporter
    )
