"""What a finished run knows: its labelled images and, under the names that it or the person gave, those it found."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from newfound.data.answers import read_table
from newfound.data.folder import labelled_images, list_images
from newfound.data.grown import Known
from newfound.errors import UserError
from newfound.methods import get_method
from newfound.model import Model
from newfound.runfolder import Run
from newfound.runs.export import safe_names
from newfound.runs.remember import Remembered, read_remembered

KNOWN = "known.json"


@dataclass(frozen=True)
class Gathered:
    """The known images, ``labelled`` of them before the run and ``found`` by it; how many of the pile count as nothing,
    since somebody said so; and what is kept of images that are gone, with their ``rows`` there."""

    known: Known
    labelled: int
    found: int
    left_out: int
    remembered: Remembered | None
    rows: list[int]


class _Image(NamedTuple):
    """Where an image was, its label, and whether it has just been met there: if it cannot be read, it is left out."""

    path: str
    label: str
    listed: bool = False


def gather(run: Run, model: Model, corrected: Path | None, moved: Mapping[str, str]) -> Gathered:
    """The images that a run knows, with corrections: a folder of categories, or a table image,label of its pile.

    ``moved`` says where folders are now. Of images that are not there, what the run keeps stands in.
    """
    remembered = read_remembered(run, model.encoder.net.width)
    now = _mover(moved, run)
    before = _labelled(run, remembered, now)
    found, left_out = _found(run, corrected)
    rows_of = remembered.rows() if remembered else {}
    paths, digests, rows, missing = [], [], [], []
    for image in (*before, *found):
        here = image.path if image.listed else now(image.path)
        paths.append(here)
        digests.append("")
        if image.listed or os.path.isfile(here):
            continue
        if remembered and image.path in rows_of:
            rows.append(rows_of[image.path])
            digests[-1] = remembered.digests[rows[-1]].tobytes().hex()
        else:
            missing.append(here)
    if missing:
        raise _lost(run, missing, len(paths))
    labels = tuple(image.label for image in (*before, *found))
    known = Known(tuple(paths), labels, tuple(digests))
    return Gathered(known, len(before), len(found), left_out, remembered, rows)


def next_name(run: Run, labels: tuple[str, ...]) -> str:
    """What the next novel category is called: one number above the highest that the run or a label has."""
    names = run.read_result()["novel"]
    prefix, digits = "novel-", 2
    if names and (match := re.fullmatch(r"(.*?)([0-9]{1,9})", names[-1], re.DOTALL)):
        prefix, digits = match[1], len(match[2])
    found = (re.fullmatch(re.escape(prefix) + r"([0-9]{1,9})", name) for name in (*names, *labels))
    return f"{prefix}{1 + max((int(match[1]) for match in found if match), default=0):0{digits}d}"


def continued(first: str, n: int) -> tuple[str, ...]:
    """``n`` names, the first of them ``first``: novel-04, novel-05, …"""
    match = re.fullmatch(r"(.*?)([0-9]{1,9})", first, re.DOTALL)
    if not match:
        raise UserError(f"next_name {first!r}: a name that ends in a number is expected, such as novel-04")
    return tuple(f"{match[1]}{int(match[2]) + i:0{len(match[2])}d}" for i in range(n))


def _mover(moved: Mapping[str, str], run: Run) -> Callable[[str], str]:
    """Where a path is now."""
    places = {os.path.abspath(old): os.path.abspath(new) for old, new in moved.items()}
    source = run.call.source
    roots = [root for root in (source.labelled, source.unlabelled, source.labels) if root]
    roots += Known.load(run.folder / KNOWN).paths if source.known else ()
    if strange := [old for old in places if not any(f"{root}/".startswith(f"{old.rstrip('/')}/") for root in roots)]:
        raise UserError(
            f"--moved {strange[0]}=…: no image of {run.folder} was in {strange[0]}; look for a typing error"
        )
    for old, new in places.items():
        if not os.path.isdir(new):
            raise UserError(f"--moved {old}={new}: {new} is not a folder; say where the images of {run.folder} are now")

    def now(path: str) -> str:
        for old, new in places.items():
            if path == old or path.startswith(old.rstrip("/") + "/"):
                return os.path.join(new, path[len(old) :].lstrip("/"))
        return path

    return now


def _labelled(run: Run, remembered: Remembered | None, now: Callable[[str], str]) -> list[_Image]:
    """The images that were labelled when the run began."""
    source = run.call.source
    if source.known:
        known = Known.load(run.folder / KNOWN)
        return [_Image(path, label) for path, label in zip(known.paths, known.labels, strict=True)]
    assert source.labelled
    root = now(source.labelled)
    if os.path.isdir(root) and not (remembered and _is_emptied(Path(root))):
        table = Path(now(source.labels)) if source.labels else None
        names, _ = labelled_images(Path(root), table)
        return [_Image(os.path.join(root, name), label, listed=True) for name, label in names.items()]
    if remembered is None:
        raise UserError(
            f"the labelled images of {run.folder} are not in {root} any more: if the folder has moved, say where it is "
            f"with --moved {source.labelled}=NEW"
        )
    classes = run.read_result()["known"]
    pairs = zip(remembered.paths, remembered.labels.tolist(), strict=True)
    return [_Image(path, classes[label]) for path, label in pairs if label >= 0]


def _is_emptied(root: Path) -> bool:
    """Whether no file is left in the folder's tree."""
    return not any(path.is_file() for path in list_images(root))


def _found(run: Run, corrected: Path | None) -> tuple[list[_Image], int]:
    """The images of the pile that have a label, and how many have none."""
    if corrected is not None and corrected.is_dir():
        names, aside = labelled_images(corrected, emptied=True)
        tables = {str(corrected / entry.name) for entry in corrected.glob("_*.csv")}  # of export
        without = [skip for skip in aside if skip.file not in tables]
        root, result = os.path.abspath(corrected), run.read_result()
        folder_of = safe_names([*result["known"], *result["novel"]])
        named = {folder: name for name, folder in folder_of.items()}  # export changes what a folder cannot be called
        found = [
            _Image(os.path.join(root, name), named.get(label, label), listed=True) for name, label in names.items()
        ]
        return found, len(without)
    assert run.call.source.unlabelled
    label_of = _assigned(run)
    if corrected is not None:
        label_of |= _corrections(run, corrected, label_of)
    root = run.call.source.unlabelled
    found = [_Image(os.path.join(root, name), label) for name, label in label_of.items() if label]
    return found, len(label_of) - len(found)


def _assigned(run: Run) -> dict[str, str]:
    """The category of each image of the pile, checked: a run may come from somebody else."""
    result, rows = run.read_result(), run.read_assignments()
    classes = {*result["known"], *result["novel"]}
    for row in rows:
        image, category = row["image"], row["category"]
        if PurePosixPath(image).is_absolute() or ".." in PurePosixPath(image).parts or "\0" in image:
            raise UserError(f"assignments.csv of {run.folder} names {image!r}, which is not in the run's pile")
        if category not in classes:
            raise UserError(f"assignments.csv of {run.folder} names the category {category!r}, which the run has not")
    return {row["image"]: row["category"] for row in rows}


def _corrections(run: Run, table: Path, label_of: Mapping[str, str]) -> dict[str, str]:
    """What a table says of images of the pile; "" where an image has no category."""
    if not os.path.lexists(table):
        raise UserError(f"--corrected {table}: there is no such folder of categories or table image,label")
    rows = read_table(table)
    if not rows:
        raise UserError(f"{str(table)!r} lists no image: write a line image,label for each image to correct")
    for name, row in rows.items():
        if name not in label_of:
            example = next(iter(label_of))
            raise UserError(
                f"{str(table)!r}, line {row.line}: {name!r} is no image of the pile of {run.folder}; names are "
                f"those in its assignments.csv, such as {example!r}"
            )
    return {name: row.label for name, row in rows.items()}


def _lost(run: Run, missing: list[str], n: int) -> UserError:
    method = run.settings.method
    keeps = bool(get_method(method)(run.settings).kept_as())
    why = "whose features the run did not keep" if keeps else f"and {method} trains a network, which needs them"
    return UserError(
        f"{len(missing):,} of the {n:,} images of {run.folder} are not there any more, such as {missing[0]!r}, {why}: "
        "if a folder has moved, say where it is with --moved OLD=NEW"
    )
