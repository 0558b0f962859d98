"""ImageNet (ILSVRC-2012): 882 classes are labelled, of the other 118 one of three subsets of 30 is to be discovered."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files as files_of
from pathlib import Path

import numpy as np

from newfound.data.cache import decode_cached
from newfound.data.collection import Pool, Reading, assemble
from newfound.data.listing import files_in, folders_in
from newfound.errors import UserError
from newfound.progress import Reporter

GET = (
    "ImageNet (ILSVRC-2012) has to be requested from image-net.org; give with --data the folder with its train/ and "
    "val/, one folder a WordNet id in each"
)


@dataclass(frozen=True)
class Splits:
    """How many classes there are, which are never labelled, and the subsets of those that are to be discovered."""

    classes: int
    held_out: frozenset[str]
    subsets: Mapping[str, frozenset[str]]
    fewest: int = 1
    """Training images that every class has at the least."""


def published_splits() -> Splits:
    """The split of the paper: 118 of 1,000 classes held out, subsets A, B and C of 30, which overlap."""
    content = json.loads((files_of("newfound.data") / "imagenet_splits.json").read_text())
    subsets = {name: frozenset(ids) for name, ids in content["subsets"].items()}
    return Splits(content["classes"], frozenset(content["held_out"]), subsets, fewest=732)


def read_imagenet(
    root: Path,
    subset: str,
    seed: int,
    *,
    size: int,
    reporter: Reporter,
    cache: Path | None,
    splits: Splits | None = None,
) -> Reading:
    """Images [3, size, size]: train/ without the held-out classes labelled, those of ``subset`` to be discovered.

    The images of the same classes in val/ are tested, if there is such a folder. A category is called by its WordNet
    id. Held-out classes that are not in the subset are not looked at. Files that cannot be read are in ``skipped``.
    """
    splits = splits or published_splits()
    if subset not in splits.subsets:
        raise UserError(f"ImageNet has no subset {subset}; there are: {', '.join(splits.subsets)}")
    known, novel = _classes(root, splits, subset)
    train, train_ids = _list(root, "train", [*known, *sorted(novel)])
    for name, count in Counter(train_ids).items():
        if count < splits.fewest:
            folder = str(root / "train" / name)
            raise UserError(
                f"{folder!r} has {count:,} images, and ImageNet at least {splits.fewest:,}: not whole; {GET}"
            )
    tested = (root / "val").is_dir()
    test, test_ids = _list(root, "val", [*known, *sorted(novel)]) if tested else ([], [])

    names, ids = train + test, train_ids + test_ids
    paths = [os.path.join(root, name) for name in names]
    images, kept, skipped = decode_cached(paths, size, channels=3, cache=cache, reporter=reporter)
    pool = Pool(images, names=[names[place] for place in kept], categories=[ids[place] for place in kept])
    row = np.arange(len(kept))
    trained, is_novel = kept < len(train), np.array([name in novel for name in pool.categories], dtype=bool)
    for name in sorted({*known, *novel} - set(pool.categories_of(row[trained]))):
        raise UserError(f"{str(root / 'train' / name)!r} holds no readable image: ImageNet is not whole; {GET}")
    return assemble(
        pool,
        labelled=row[trained & ~is_novel],
        unlabelled=row[trained & is_novel],
        test=row[~trained] if tested else None,
        n_novel=len(novel),
        seed=seed,
        skipped=skipped,
    )


def _classes(root: Path, splits: Splits, subset: str) -> tuple[list[str], frozenset[str]]:
    """The WordNet ids that are labelled, in order, and those to be discovered; all of them are in train/."""
    if not (root / "train").is_dir():
        raise UserError(f"{str(root)!r} has no folder train: {GET}")
    found = folders_in(root / "train")
    novel = splits.subsets[subset]
    if missing := sorted(novel - set(found)):
        others = f" and {len(missing) - 1} others" if len(missing) > 1 else ""
        raise UserError(f"{str(root / 'train')!r} lacks the classes of subset {subset}: {missing[0]}{others}; {GET}")
    known = [name for name in found if name not in splits.held_out]
    if strangers := [name for name in known if not re.fullmatch(r"n\d{8}", name)]:
        raise UserError(f"{str(root / 'train')!r} has a folder {strangers[0]!r}, which is no WordNet id; {GET}")
    expected = splits.classes - len(splits.held_out)
    if len(known) != expected:
        raise UserError(
            f"{str(root / 'train')!r} has {len(known):,} folders of labelled classes, and ImageNet has {expected:,}: "
            f"it is not whole; {GET}"
        )
    return known, novel


def _list(root: Path, part: str, classes: Iterable[str]) -> tuple[list[str], list[str]]:
    """The images of these classes, by class and file name, as paths relative to the root; and the class of each."""
    names: list[str] = []
    ids: list[str] = []
    for wordnet_id in classes:
        folder = root / part / wordnet_id
        if not folder.is_dir():
            remedy = "" if part == "train" else ", or remove val/ to do without test images"
            raise UserError(f"{str(root / part)!r} has no folder {wordnet_id}: it is not whole; {GET}{remedy}")
        files = files_in(folder)
        names += [f"{part}/{wordnet_id}/{file}" for file in files]
        ids += [wordnet_id] * len(files)
    return names, ids
