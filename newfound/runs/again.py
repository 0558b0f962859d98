"""Making the page of a finished run again."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from newfound.engine.device import pick_device
from newfound.engine.loop import Engine
from newfound.errors import UserError
from newfound.model import load_model
from newfound.progress import Reporter
from newfound.report.keep import Kept, keep, read_kept
from newfound.report.page import write_page
from newfound.runfolder import Run
from newfound.runs.discovery import read_call


def report(folder: Path, *, device: str, reporter: Reporter) -> Path:
    """Write the page of a finished run; gives its path.

    What the page shows of the images was kept by the run. Where that is missing, it is made from the images, if they
    are still there; otherwise the page has no pictures and no map.
    """
    run = Run.open(folder, to_write=True)
    run.read_result()  # stops if the run is not finished
    with run.locked():
        try:
            kept = read_kept(run)
        except UserError as error:
            reporter.warn(f"{error.command_line}; it is made again from the images")
            kept = None
        if kept is None:
            try:
                kept = _keep_again(run, device, reporter)
            except UserError as error:
                reporter.warn(f"{error.command_line}; the page has no pictures and no map")
        return write_page(run, kept)


def _keep_again(run: Run, device: str, reporter: Reporter) -> Kept:
    if not run.ours:
        raise UserError("this user did not make the run here, and the images that it names are not put into a page")
    model = load_model(run.folder / "model")
    reading = read_call(run.call, run.settings, reporter)
    run.remember(reading.collection)
    engine = Engine(reading.collection, pick_device(device), seed=run.call.seed, reporter=reporter)
    features = engine.features(model, engine.train_images, title="reading features", of=model.features)
    names = reading.names.unlabelled
    assignments, confidence = (np.array(column) for column in run.read_assigned(names, model.classes))
    return keep(run, reading.collection, names, features, assignments, confidence, reporter)
