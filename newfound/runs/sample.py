"""A few images of a data set as folders of PNG files, laid out as people have theirs: known/, pile/ and new/."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from newfound.data.sources import Request, Source
from newfound.data.store import ImageStore
from newfound.errors import UserError
from newfound.files import new_directory, write_text, writing_to
from newfound.progress import Reporter
from newfound.runs.export import safe_name, safe_names
from newfound.tables import format_table

TEST_SHARE = 5
"""A category has this many times fewer images in new/ than in known/ or pile/."""


def write_sample(
    name: str,
    root: Path | None,
    to: Path,
    *,
    each: int,
    seed: int = 0,
    size: int = 32,
    reporter: Reporter | None = None,
    cache: Path | None = None,
) -> tuple[dict[str, int], int]:
    """Write ``each`` images of every category of a data set to the new folder ``to``; gives the number in each part,
    and the number of novel categories.

    ``known/`` has a folder for each known category, ``pile/`` the images of the novel ones, mixed, and ``new/`` test
    images of all categories. The categories of the last two are in truth.csv.
    """
    if to.is_symlink() or (to.exists() and not (to.is_dir() and not any(to.iterdir()))):
        raise UserError(f"--to {to} exists and is not an empty folder: name a new one")
    source = Source(dataset=name, data=str(root) if root else None)
    reading = source.read(Request(size, seed, reporter or Reporter(quiet=True), cache=cache))
    collection, names, answers = reading.collection, reading.names, reading.answers
    assert answers is not None  # data sets have them
    rng = np.random.default_rng([seed, 0x5A3])
    known = [collection.classes[label] for label in collection.labels[: collection.n_labelled]]
    hidden, tested = answers.unlabelled or (), answers.test or ()
    folder_of = safe_names(collection.classes)
    truth: list[tuple[str, str]] = []
    with contextlib.ExitStack() as held:
        with writing_to(to, "--to"):
            new = held.enter_context(new_directory(to))
        rows = _draw(known, each, rng)
        for row in rows:
            _write(collection.train, row, new / "known" / folder_of[known[row]], names.labelled[row])
        for part, store, first, own, categories, most in (
            ("pile", collection.train, collection.n_labelled, names.unlabelled, hidden, each),
            ("new", collection.test, 0, names.test, tested, max(1, each // TEST_SHARE)),
        ):
            for row in _draw(categories, most, rng) if store is not None else ():
                image = _write(store, first + row, new / part, own[row])
                truth.append((image, str(categories[row])))
        write_text(new / "truth.csv", format_table(["image", "label"], sorted(truth)))
        parts = [part for part in sorted(new.iterdir()) if part.is_dir()]
        return {part.name: sum(1 for _ in part.rglob("*.png")) for part in parts}, len(set(hidden))


def _draw(categories: Sequence[str | None], each: int, rng: np.random.Generator) -> list[int]:
    """Rows of up to ``each`` images of every category."""
    order = rng.permutation(len(categories))
    taken: dict[str | None, int] = {}
    rows = []
    for row in order.tolist():
        taken[categories[row]] = taken.get(categories[row], 0) + 1
        if taken[categories[row]] <= each:
            rows.append(row)
    return sorted(rows)


def _write(store: ImageStore | None, row: int, folder: Path, name: str) -> str:
    """Write one image as a PNG file, and give the file's name."""
    assert store is not None
    folder.mkdir(parents=True, exist_ok=True)
    file = f"{safe_name(name.removesuffix('.png'))}.png"
    pixels = store.batch(torch.tensor([row]))[0].numpy()
    Image.fromarray(pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0)).save(folder / file)
    return file
