"""Pictures of a finished run, from its own files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from newfound.data.answers import read_answers
from newfound.errors import UserError
from newfound.evaluate.confusion import count_pairs
from newfound.files import write_bytes, writing_to
from newfound.progress import Reporter
from newfound.report.matrix import Pairs
from newfound.report.pictures import MOST_CATEGORIES, Map, draw_maps, draw_matrices
from newfound.report.tsne import draw_map
from newfound.runfolder import CONFUSION, CONFUSION_COLUMNS, Run
from newfound.runs.snapshots import read_snapshots, read_truth

MOST_POINTS = 2000
"""Images on a map: more would lie over each other."""
FEATURES, MATRICES = "features.png", "confusion.png"
END = "in the end"


def draw_pictures(folder: Path, out: Path, answers: Path | None, reporter: Reporter) -> list[Path]:
    """Write what can be drawn of a finished run into the folder ``out``: features.png where it has snapshots, and
    confusion.png where true categories are known: from ``answers`` (CSV: image,label), or from the run's data set."""
    run = Run.open(folder)
    rows = run.read_assignments()
    if out.resolve().is_relative_to(folder.resolve()):
        raise UserError(f"--out {out} lies in the run, whose files are its own: choose another place")
    if out.exists() and not out.is_dir():
        raise UserError(f"--out {out} is no folder: choose another place")
    truth = read_answers(answers, tuple(row["image"] for row in rows), reporter) if answers else None
    drawings = {}
    if maps := feature_maps(run, truth, reporter):
        images, of = f"{len(maps[0].categories):,} unlabelled images", "true" if _is_known(run, truth) else "found"
        drawings[FEATURES] = draw_maps(f"t-SNE of the features of {images}, coloured by {of} category", maps)
    if parts := confusions(run, truth):
        n = len({true for _, true, _ in parts[END]})
        if n <= MOST_CATEGORIES:
            title = "Which categories the images of each true category were given, in per cent"
            drawings[MATRICES] = draw_matrices(title, parts)
        else:
            reporter.warn(f"{n:,} true categories are too many for {MATRICES}, which has up to {MOST_CATEGORIES}")
    if not drawings:
        raise UserError(
            f"there is nothing to draw of {folder}: discover --snapshots 1,10,100 keeps features, and --answers "
            "truth.csv says the true categories"
        )
    files = {out / name: drawing.png() for name, drawing in drawings.items()}
    with writing_to(out, "--out"):
        out.mkdir(parents=True, exist_ok=True)
        for path, content in files.items():
            write_bytes(path, content)
    return list(files)


def _is_known(run: Run, truth: Sequence[str | None] | None) -> bool:
    return truth is not None or bool(read_truth(run))


def feature_maps(run: Run, truth: Sequence[str | None] | None, reporter: Reporter) -> list[Map]:
    """A t-SNE of each snapshot's features, of the same images, with their true categories (those of the ``truth``
    [rows of assignments.csv], else the run's own) or, where nobody knows any, the found ones."""
    rows = run.read_assignments()
    snapshots = read_snapshots(run, len(rows))
    known = read_truth(run) if truth is None else {}
    categories = [known.get(row["image"]) for row in rows] if truth is None else list(truth)
    if not any(categories):
        categories = [row["category"] for row in rows]
    stages = {stage for stage, *_ in snapshots}
    maps = []
    for stage, epoch, features, images in snapshots:
        chosen = np.random.default_rng(run.call.seed).permutation(len(images))[:MOST_POINTS]
        chosen = np.array([row for row in chosen if categories[images[row]]], np.int64)
        if len(chosen):
            positions = draw_map(torch.from_numpy(features[chosen]), run.call.seed, reporter)
            title = f"epoch {epoch}" if len(stages) == 1 else f"{stage}, epoch {epoch}"
            maps.append(Map(title, positions, [categories[image] or "" for image in images[chosen]]))
    return maps


def confusions(run: Run, truth: Sequence[str | None] | None = None) -> dict[str, Pairs]:
    """Found category, true category and images: of the first categories that the method had found on the way, where the
    run has them, and of those in the end."""
    if truth is not None:
        return {END: count_pairs([row["category"] for row in run.read_assignments()], truth)}
    parts: dict[str, list[tuple[str, str, int]]] = {}
    if run.has(CONFUSION):
        for row in run.read_table(CONFUSION, CONFUSION_COLUMNS):
            if not (row["images"].isascii() and row["images"].isdigit()):
                raise UserError(f"{run.folder / CONFUSION} cannot be read: images is {row['images']!r}")
            parts.setdefault(row["part"], []).append((row["found"], row["truth"], int(row["images"][:12])))
    if not parts.get("unlabelled"):
        return {}
    earlier = next((name for name in parts if name.startswith("earlier/")), None)
    found: dict[str, Pairs] = {f"after {earlier.partition('/')[2]}": parts[earlier]} if earlier else {}
    return found | {END: parts["unlabelled"]}
