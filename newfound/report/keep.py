"""What a run keeps for its page, so that the page can be made again without the images: report.safetensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from torch import Tensor

from newfound.data.collection import Collection
from newfound.errors import UserError
from newfound.files import write_bytes
from newfound.progress import Reporter
from newfound.report.sprites import Sheets, is_picture, make_sheets
from newfound.report.tsne import MOST_POINTS, draw_map, sample_points
from newfound.report.typical import choose_gallery, closeness, gallery_size, told_of
from newfound.runfolder import Run
from newfound.strangers import LARGE, require_regular
from newfound.tensors import pack, read_tensors

NAME = "report.safetensors"
GALLERY_BYTES, INSIDE = 3_000_000, 3_500_000
"""Of larger pictures, and of thumbnails inside the page. They are a third larger there (base64): 8.7 of its 15 MB."""
THUMBNAIL = 64
"""Pixels of a thumbnail at the most."""
MOST_PICTURES = 10_000
MOST_IMAGES = 50_000
"""Images that the page shows, beside those of the gallery: all, or a random choice."""
MOST_CATEGORIES = 2000
"""Categories that are shown, the largest ones; beyond it the page would only grow."""


@dataclass(frozen=True)
class Kept:
    """What the page shows of the images; -1 where there are no more.

    ``images`` [P] are rows of assignments.csv, and ``typicality`` and ``other`` [P] say how typical each is and which
    category it is next to; the first M of them are on the map, at ``positions`` [M, 2]. ``shown`` [S] are categories
    that images may have, counted known ones, then novel ones. For each of them ``typical`` and ``doubtful`` have places
    in ``images``, and ``nearest`` has the novel categories nearest to it. ``thumbnails`` are of all images,
    ``gallery`` has larger pictures of the typical, then the doubtful ones of each category; both may be missing.
    """

    images: np.ndarray
    typicality: np.ndarray
    other: np.ndarray
    positions: np.ndarray
    shown: np.ndarray
    typical: np.ndarray
    doubtful: np.ndarray
    nearest: np.ndarray
    thumbnails: Sheets | None = None
    gallery: Sheets | None = None


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
    near = closeness(features, labels, assignments, len(collection.classes), collection.n_novel)
    shown = largest(assignments, told_of(collection, assignments))
    points = sample_points(assignments, MOST_POINTS, seed)
    images, typical, doubtful = choose_images(assignments, confidence, near.own, shown, points, seed)
    positions = draw_map(features[first:][torch.from_numpy(points).to(features.device)], seed, reporter)
    thumbnails = gallery = None
    if is_picture(collection.train):
        thumbnails = make_sheets(collection.train, first + images, thumbnail_bytes(len(images)), THUMBNAIL)
        pictured = np.concatenate([typical, doubtful], 1).ravel()
        gallery = make_sheets(collection.train, first + images[pictured[pictured >= 0]], GALLERY_BYTES)
        if gallery.side <= thumbnails.side:
            gallery = None
    place = np.empty(len(names), np.int64)
    place[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
    kept = Kept(
        place[images], near.own[images], near.other[images], positions, shown, typical, doubtful,
        near.nearest[shown], thumbnails, gallery,
    )  # fmt: skip
    write_kept(run.folder / NAME, kept)
    return kept


def choose_images(
    assignments: np.ndarray,
    confidence: np.ndarray,
    typicality: np.ndarray,
    shown: np.ndarray,
    points: np.ndarray,
    seed: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows that the page shows, ``points`` first, then the others by category, the typical before; and the places among
    them of each shown category's typical and of its doubtful images."""
    counts = gallery_size(len(shown))
    chosen = [choose_gallery(assignments, confidence, typicality, category, *counts) for category in shown]
    tables = [_table([pair[i] for pair in chosen], counts[i]) for i in (0, 1)]
    pictured = np.concatenate([rows for pair in chosen for rows in pair])
    others = np.setdiff1d(np.union1d(sample_points(assignments, MOST_IMAGES, seed), pictured), points)
    others = others[np.lexsort((-typicality[others], assignments[others]))]
    images = np.concatenate([points, others])
    place = np.full(len(assignments) + 1, -1)
    place[images] = np.arange(len(images))
    return images, place[tables[0]], place[tables[1]]


def thumbnail_bytes(n: int) -> int:
    """Bytes that thumbnails of ``n`` images may take: those of a full map fit into the page."""
    return INSIDE * max(MOST_POINTS, n) // MOST_POINTS


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


WHOLE = ("images", "other", "shown", "typical", "doubtful", "nearest")
REAL = ("typicality", "positions")
PICTURES = ("thumbnails", "gallery")


def write_kept(path: Path, kept: Kept) -> None:
    tensors = {name: getattr(kept, name).astype(np.int32) for name in WHOLE}
    tensors |= {name: getattr(kept, name).astype(np.float32) for name in REAL}
    for name in PICTURES:
        if sheets := getattr(kept, name):
            tensors[f"{name}.layout"] = np.array([sheets.side, sheets.cell, sheets.columns], np.int32)
            for number, jpeg in enumerate(sheets.jpegs):
                tensors[f"{name}.{number}"] = np.frombuffer(jpeg, np.uint8)
    write_bytes(path, pack({name: torch.from_numpy(value.copy()) for name, value in tensors.items()}))


def read_kept(run: Run) -> Kept | None:
    """What the run kept, checked against its numbers of images and categories; None where it kept nothing."""
    path, result = run.folder / NAME, run.read_result()
    if not path.exists():
        return None
    try:
        n_images, n_all = int(result["images"]["unlabelled"]), len(result["novel"]) + len(result["known"])
        require_regular(path, LARGE)
        tensors = {name: value.numpy() for name, value in read_tensors(path).items()}
        thumbnails, gallery = (_read_sheets(tensors, name) for name in PICTURES)
        arrays: dict[str, Any] = {name: tensors[name] for name in (*WHOLE, *REAL)}
        kept = Kept(**arrays, thumbnails=thumbnails, gallery=gallery)
        _check(kept, n_images, n_all)
    except UserError:
        raise
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
    lines, n, points = len(kept.shown), len(kept.images), len(kept.positions)
    shapes = {
        "images": (n,), "typicality": (n,), "other": (n,), "positions": (points, 2), "shown": (lines,),
        "typical": (lines, None), "doubtful": (lines, None),
        "nearest": (lines, None),
    }  # fmt: skip
    below = {"images": n_images, "other": n_all, "shown": n_all, "typical": n, "doubtful": n, "nearest": n_all}
    for name, shape in shapes.items():
        values = getattr(kept, name)
        if len(values.shape) != len(shape) or any(w not in (None, h) for h, w in zip(values.shape, shape, strict=True)):
            raise ValueError(f"{name} has the shape {values.shape}")
        whole = name in WHOLE
        if whole and (values.dtype != np.int32 or (values < -1).any() or (values >= below[name]).any()):
            raise ValueError(f"{name} counts beyond {below[name] - 1}")
        if not whole and (values.dtype != np.float32 or not np.isfinite(values).all()):
            raise ValueError(f"{name} holds what is no number")
    if (kept.shown < 0).any() or (kept.images < 0).any():
        raise ValueError("shown or images count below 0")
    pictures, near = kept.typical.size + kept.doubtful.size, kept.nearest.size
    if lines > MOST_CATEGORIES or points > min(n, MOST_POINTS) or max(pictures, near) > MOST_PICTURES:
        raise ValueError(f"{lines} categories, {pictures} pictures of them and {points} points")
    if n > MOST_IMAGES + MOST_PICTURES:
        raise ValueError(f"{n} images, more than a page shows")
    for sheets, budget in ((kept.gallery, GALLERY_BYTES), (kept.thumbnails, thumbnail_bytes(n))):
        if sheets and sum(map(len, sheets.jpegs)) > budget:
            raise ValueError("its pictures are larger than those of a run")
