"""What a run keeps for its page, so that the page can be made again without the images: report.safetensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.numpy import load_file, save
from torch import Tensor

from newfound.data.collection import Collection
from newfound.errors import UserError
from newfound.files import write_bytes
from newfound.progress import Reporter
from newfound.report.sprites import Sheets, is_picture, make_sheets
from newfound.report.tsne import MOST_POINTS, draw_map, sample_points
from newfound.report.typical import choose_gallery, closeness, gallery_size
from newfound.runfolder import Run

NAME = "report.safetensors"
GALLERY_BYTES, MAP_BYTES = 5_500_000, 2_500_000
"""Of thumbnails. In the page they are a third larger (base64): 10.7 of its 15 MB."""
MAP_SIDE = 48
MOST_PICTURES = 10_000
MOST_CATEGORIES = 2000
"""Categories that are shown, the largest ones; beyond it the page would only grow."""


@dataclass(frozen=True)
class Kept:
    """Rows are those of assignments.csv, -1 where there are no more; categories count known ones, then novel ones.

    ``shown`` [S] are categories that images may have; ``typical``, ``doubtful``, ``runner_up`` (the category
    that a doubtful image is next to), ``nearest`` and ``cosine`` have a line for each of them. ``points`` [M] lie at
    ``positions`` [M, 2]. The gallery's pictures are the typical, then the doubtful ones of each category; both sheets
    may be missing.
    """

    shown: np.ndarray
    typical: np.ndarray
    doubtful: np.ndarray
    runner_up: np.ndarray
    nearest: np.ndarray
    cosine: np.ndarray
    points: np.ndarray
    positions: np.ndarray
    gallery: Sheets | None = None
    map: Sheets | None = None


def keep(
    run: Run,
    collection: Collection,
    names: Sequence[str],
    features: Tensor,
    assignments: np.ndarray,
    confidence: np.ndarray,
    reporter: Reporter,
) -> Kept:
    """Choose, draw and write what the page shows of the unlabelled images, which are called ``names``, from features
    [n_train, D]."""
    first, seed = collection.n_labelled, run.call.seed
    labels = torch.from_numpy(collection.labels[:first])
    n = len(collection.classes) + collection.n_novel
    near = closeness(features, labels, assignments, n)
    shown = largest(assignments, collection.candidates)
    counts = gallery_size(len(shown))
    chosen = [choose_gallery(assignments, confidence, near.own, category, *counts) for category in shown]
    typical, doubtful = (_table([pair[i] for pair in chosen], counts[i]) for i in (0, 1))
    points = sample_points(assignments, MOST_POINTS, seed)
    positions = draw_map(features[first:][torch.from_numpy(points).to(features.device)], seed, reporter)
    gallery = thumbnails = None
    if is_picture(collection.train):
        pictured = np.concatenate([typical, doubtful], 1).ravel()
        gallery = make_sheets(collection.train, first + pictured[pictured >= 0], GALLERY_BYTES)
        thumbnails = make_sheets(collection.train, first + points, MAP_BYTES, MAP_SIDE)
    place = np.empty(len(names) + 1, np.int64)
    place[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
    place[-1] = -1
    runner_up = np.where(doubtful >= 0, near.other[doubtful], -1)
    kept = Kept(
        shown, place[typical], place[doubtful], runner_up, near.nearest[shown], near.cosine[shown], place[points],
        positions, gallery, thumbnails,
    )  # fmt: skip
    write_kept(run.folder / NAME, kept)
    return kept


def largest(assignments: np.ndarray, candidates: np.ndarray) -> np.ndarray:
    """The candidates that are shown, rising: those with the most images."""
    sizes = np.bincount(assignments, minlength=int(candidates.max()) + 1)[candidates]
    return np.sort(candidates[np.argsort(-sizes, kind="stable")[:MOST_CATEGORIES]])


def _table(rows: list[np.ndarray], width: int) -> np.ndarray:
    """Rows of unequal lengths as a table [len(rows), width], filled up with -1."""
    table = np.full((len(rows), width), -1, np.int64)
    for line, some in zip(table, rows, strict=True):
        line[: len(some)] = some
    return table


WHOLE = ("shown", "typical", "doubtful", "runner_up", "nearest", "points")
REAL = ("cosine", "positions")
PICTURES = ("gallery", "map")


def write_kept(path: Path, kept: Kept) -> None:
    tensors = {name: getattr(kept, name).astype(np.int32) for name in WHOLE}
    tensors |= {name: getattr(kept, name).astype(np.float32) for name in REAL}
    for name in PICTURES:
        if sheets := getattr(kept, name):
            tensors[f"{name}.layout"] = np.array([sheets.side, sheets.cell, sheets.columns], np.int32)
            for number, jpeg in enumerate(sheets.jpegs):
                tensors[f"{name}.{number}"] = np.frombuffer(jpeg, np.uint8)
    write_bytes(path, save(tensors))


def read_kept(run: Run) -> Kept | None:
    """What the run kept, checked against its numbers of images and categories; None where it kept nothing."""
    path, result = run.folder / NAME, run.read_result()
    if not path.exists():
        return None
    try:
        n_images, n_all = int(result["images"]["unlabelled"]), len(result["novel"]) + len(result["known"])
        tensors = load_file(path)
        kept = Kept(
            tensors["shown"], tensors["typical"], tensors["doubtful"], tensors["runner_up"], tensors["nearest"],
            tensors["cosine"], tensors["points"], tensors["positions"],
            _read_sheets(tensors, "gallery"), _read_sheets(tensors, "map"),
        )  # fmt: skip
        _check(kept, n_images, n_all)
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path} does not hold what this run's page shows: {str(error) or repr(error)}") from None
    return kept


def _read_sheets(tensors: dict[str, np.ndarray], name: str) -> Sheets | None:
    layout = tensors.get(f"{name}.layout")
    if layout is None:
        return None
    side, cell, columns = map(int, layout)
    jpegs: list[bytes] = []
    while (jpeg := tensors.get(f"{name}.{len(jpegs)}")) is not None:
        jpegs.append(jpeg.astype(np.uint8).tobytes())
    if not (1 <= side <= cell <= 4096 and 1 <= columns <= 4096):
        raise ValueError(f"a layout of {side}, {cell} and {columns}")
    return Sheets(side, cell, columns, tuple(jpegs))


def _check(kept: Kept, n_images: int, n_all: int) -> None:
    lines, points = len(kept.shown), len(kept.points)
    shapes = {
        "shown": (lines,), "typical": (lines, None), "doubtful": (lines, None), "runner_up": kept.doubtful.shape,
        "nearest": (lines, None), "cosine": kept.nearest.shape, "points": (points,), "positions": (points, 2),
    }  # fmt: skip
    below = {"shown": n_all, "typical": n_images, "doubtful": n_images, "points": n_images}
    below |= {"runner_up": n_all, "nearest": n_all}
    for name, shape in shapes.items():
        values = getattr(kept, name)
        if len(values.shape) != len(shape) or any(w not in (None, h) for h, w in zip(values.shape, shape, strict=True)):
            raise ValueError(f"{name} has the shape {values.shape}")
        whole = name in WHOLE
        if whole and (values.dtype != np.int32 or (values < -1).any() or (values >= below[name]).any()):
            raise ValueError(f"{name} counts beyond {below[name] - 1}")
        if not whole and (values.dtype != np.float32 or not np.isfinite(values).all()):
            raise ValueError(f"{name} holds what is no number")
    if (kept.shown < 0).any() or (kept.points < 0).any():
        raise ValueError("shown or points count below 0")
    pictures = kept.typical.size + kept.doubtful.size
    if lines > MOST_CATEGORIES or points > MOST_POINTS or pictures > MOST_PICTURES or kept.nearest.size > MOST_PICTURES:
        raise ValueError(f"{lines} categories, {pictures} pictures of them and {points} points")
    for sheets, budget in ((kept.gallery, GALLERY_BYTES), (kept.map, MAP_BYTES)):
        if sheets and sum(map(len, sheets.jpegs)) > budget:
            raise ValueError("its pictures are larger than those of a run")
