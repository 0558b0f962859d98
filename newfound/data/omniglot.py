"""OmniGlot, drawings of the characters of 50 alphabets: 30 are labelled, the other 20 are a task each."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from newfound.data.cache import decode_cached
from newfound.data.collection import Pool, Reading, assemble
from newfound.data.listing import files_in, folders_in
from newfound.errors import UserError
from newfound.progress import Reporter


@dataclass(frozen=True)
class Layout:
    """What a folder of alphabets holds: ``drawings`` files of each character."""

    folder: str
    alphabets: int
    characters: int
    drawings: int = 20


BACKGROUND = Layout("images_background", alphabets=30, characters=964)
EVALUATION = Layout("images_evaluation", alphabets=20, characters=659)

REHEARSED = ("Alphabet_of_the_Magi", "Cyrillic", "Grantha", "Japanese_(katakana)", "Latin")
"""Background alphabets that pretend to be novel in the rehearsal."""

GET = "get the data set with `newfound data get omniglot --to ROOT`"


class Drawing(NamedTuple):
    """A file, relative to the root, and what is in it; the file's name says who drew it, and goes to people only."""

    file: str
    alphabet: str
    character: str


def read_omniglot(
    root: Path,
    seed: int,
    *,
    size: int,
    reporter: Reporter,
    cache: Path | None,
    background: Layout = BACKGROUND,
    evaluation: Layout = EVALUATION,
) -> Reading:
    """Images [1, size, size], black on white: the background characters labelled, each evaluation alphabet a task."""
    known, novel = list_drawings(root, background), list_drawings(root, evaluation)
    if both := {drawing.alphabet for drawing in known} & {drawing.alphabet for drawing in novel}:
        raise UserError(f"{str(root)!r} has {min(both)} among the background and the evaluation alphabets: {GET}")
    labelled = np.repeat([True, False], [len(known), len(novel)])
    return _read(root, known + novel, labelled, seed, size, reporter, cache)


def read_omniglot_rehearsal(
    root: Path, seed: int, *, size: int, reporter: Reporter, cache: Path | None, background: Layout = BACKGROUND
) -> Reading:
    """Images [1, size, size] to choose settings with: five of the background alphabets pretend to be novel tasks.

    The evaluation images are not looked at.
    """
    drawings = list_drawings(root, background)
    if missing := set(REHEARSED) - {drawing.alphabet for drawing in drawings}:
        raise UserError(f"{str(root / background.folder)!r} has no alphabet {min(missing)}: it is not whole; {GET}")
    labelled = np.array([drawing.alphabet not in REHEARSED for drawing in drawings])
    return _read(root, drawings, labelled, seed, size, reporter, cache)


def _read(
    root: Path,
    drawings: list[Drawing],
    labelled: np.ndarray,
    seed: int,
    size: int,
    reporter: Reporter,
    cache: Path | None,
) -> Reading:
    paths = [os.path.join(root, drawing.file) for drawing in drawings]
    decoded = decode_cached(paths, size, channels=1, cache=cache, reporter=reporter)
    if decoded.skipped:
        first = decoded.skipped[0]
        others = f", nor can {len(decoded.skipped) - 1:,} more" if len(decoded.skipped) > 1 else ""
        raise UserError(f"{first.file!r} cannot be read ({first.reason}){others}: OmniGlot is not whole; {GET}")
    categories = [f"{drawing.alphabet}/{drawing.character}" for drawing in drawings]
    pool = Pool(
        images=decoded.images,
        names=[drawing.file for drawing in drawings],
        categories=categories,
        tasks=[drawing.alphabet for drawing in drawings],
    )
    row = np.arange(len(drawings))
    alphabet_of = {categories[i]: drawings[i].alphabet for i in row[~labelled]}
    return assemble(
        pool,
        # The order on disk is that of the people who drew: the same twenty, again and again.
        labelled=np.random.default_rng([seed, 0xD4A3]).permutation(row[labelled]),
        unlabelled=row[~labelled],
        n_novel=Counter(alphabet_of.values()),
        seed=seed,
    )


def list_drawings(root: Path, layout: Layout) -> list[Drawing]:
    """All drawings of a folder of alphabets, by alphabet, character and file name; as many as were published."""
    top = os.path.join(root, layout.folder)
    if not os.path.isdir(top):
        raise UserError(f"{str(root)!r} has no folder {layout.folder}: {GET}, or give with --data the folder it is in")
    drawings, characters = [], 0
    alphabets = folders_in(top)
    for alphabet in alphabets:
        below = os.path.join(top, alphabet)
        for character in folders_in(below):
            here = os.path.join(below, character)
            files = files_in(here)
            if len(files) != layout.drawings:
                found = f"{here!r} has {len(files):,} files, and every character {layout.drawings} drawings"
                raise UserError(f"{found}: it is not whole; {GET}")
            start = f"{layout.folder}/{alphabet}/{character}/"
            drawings += [Drawing(start + file, alphabet, character) for file in files]
            characters += 1
    if (len(alphabets), characters) != (layout.alphabets, layout.characters):
        raise UserError(
            f"{top!r} has {characters:,} characters in {len(alphabets)} alphabets, and OmniGlot has "
            f"{layout.characters:,} in {layout.alphabets} there: it is not whole; {GET}"
        )
    return drawings
