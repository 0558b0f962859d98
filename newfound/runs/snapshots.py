"""The snapshots of a run: what is written beside them at the end, and how they are read again."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from safetensors import SafetensorError

from newfound.data.collection import Reading
from newfound.engine.snapshots import SNAPSHOTS, Snapshots
from newfound.errors import UserError
from newfound.progress import Reporter
from newfound.report.curves import read_curves
from newfound.runfolder import Run
from newfound.strangers import LARGE, require_regular
from newfound.tensors import read_tensors

TRUTH = f"{SNAPSHOTS}/truth.csv"
TRUTH_COLUMNS = ("image", "label")
NAMES = re.compile(r"(?P<stage>[\w-]{1,40})-(?P<epoch>\d{5})\.safetensors")
MOST_IMAGES = 100_000


def complete(run: Run, snapshots: Snapshots, reading: Reading, reporter: Reporter) -> None:
    """Write the true categories of the snapshots' images beside them, where answers exist; warn of what is missing."""
    for plan, epoch in sorted(snapshots.wanted):
        if not any(snapshots.folder.glob(f"{plan}-*{epoch:05d}.safetensors")):
            reporter.warn(f"there is no snapshot {plan}:{epoch}: this run had no stage {plan} with features of its own")
    truth = reading.answers.unlabelled if reading.answers else None
    if truth is not None and snapshots.folder.is_dir():
        rows = [row - reading.collection.n_labelled for row in snapshots.rows.tolist()]
        lines = [(reading.names.unlabelled[row], truth[row] or "") for row in rows]
        run.write_table(TRUTH, TRUTH_COLUMNS, lines)


def read_snapshots(run: Run, n_images: int) -> list[tuple[str, int, np.ndarray, np.ndarray]]:
    """Stage, epoch, features [n, D] and rows of assignments.csv [n] of each snapshot, in the order of metrics.jsonl."""
    folder = run.folder / SNAPSHOTS
    paths = sorted(folder.glob("*.safetensors")) if folder.is_dir() else []
    found = [(match["stage"], match["epoch"], path) for path in paths if (match := NAMES.fullmatch(path.name))]
    order = [curve["stage"] for curve in read_curves(run.folder / "metrics.jsonl")]
    found.sort(key=lambda one: (order.index(one[0]) if one[0] in order else len(order), one[1]))
    return [(stage, int(epoch), *_read(path, n_images)) for stage, epoch, path in found]


def _read(path: Path, n_images: int) -> tuple[np.ndarray, np.ndarray]:
    try:
        require_regular(path, LARGE)
        tensors = read_tensors(path, checked=True)
        features, images = tensors["features"].float().numpy(), tensors["images"].numpy()
        if features.ndim != 2 or images.shape != features.shape[:1] or not 1 <= len(images) <= MOST_IMAGES:
            raise ValueError(f"features {features.shape} of images {images.shape}")
        if images.dtype != np.int64 or images.min() < 0 or images.max() >= n_images or not np.isfinite(features).all():
            raise ValueError("it does not fit assignments.csv")
    except UserError:
        raise
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
        raise UserError(f"the snapshot {path} cannot be read: {str(error) or repr(error)}") from None
    return features, images


def read_truth(run: Run) -> dict[str, str]:
    """The true category of images by their names, as far as the run has it."""
    if not (run.folder / TRUTH).exists():
        return {}
    return {row["image"]: row["label"] for row in run.read_table(TRUTH, TRUTH_COLUMNS) if row["label"]}
