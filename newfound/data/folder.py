"""Folders of images: one folder a category (or a table of labels) for the known ones, any tree for the pile."""

from __future__ import annotations

import heapq
import os
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath

import numpy as np

from newfound.data.alike import warn_of_like_names
from newfound.data.answers import read_table, require_a_name
from newfound.data.cache import decode_cached
from newfound.data.collection import Pool, Reading, Skipped, assemble
from newfound.data.duplicates import leave_out_known
from newfound.errors import UserError
from newfound.progress import Reporter

DOUBTFUL = "_doubtful"
"""The folder that ``export`` puts images into whose category is doubtful: no category, wherever it is met again."""

SYSTEM = ("/proc", "/sys", "/dev")

Listing = Callable[[Path], list[Path]]
"""Gives all files below a folder: ``list_images``, or one that remembers what it found."""


def list_images(root: Path) -> list[Path]:
    """All files below a folder, in the order of their paths' code points; a file that is no folder lists itself.

    Hidden files and folders are left out. Links are followed, but not into the system's own file systems (/proc), each
    folder is visited once, and a folder that can be reached without a link is visited there. A folder that cannot be
    opened is listed, so that ``decode`` says why.
    """
    if not os.path.lexists(root):
        raise UserError(f"there is no file or folder {str(root)!r}")
    if not root.is_dir():
        return [root]
    files: list[str] = []
    folders = [str(root)]
    links: list[str] = []
    seen: set[tuple[int, int]] = set()
    system = _system_devices()
    while folders or links:
        folder = folders.pop() if folders else heapq.heappop(links)
        try:
            identity = _identity(folder)
            if identity in seen or identity[0] in system:
                continue
            seen.add(identity)
            inside = _visible(folder)
        except OSError:
            files.append(folder)
            continue
        for entry in inside:
            if not _is_folder(entry):
                files.append(entry.path)
            elif entry.is_symlink():
                heapq.heappush(links, entry.path)
            else:
                folders.append(entry.path)
    return [Path(file) for file in sorted(files)]


def read_folders(
    labelled: Path,
    unlabelled: Path,
    *,
    n_novel: int,
    size: int,
    seed: int,
    mixed: bool = False,
    labels: Path | None = None,
    reporter: Reporter | None = None,
    cache: Path | None = None,
    workers: int | None = None,
    listing: Listing = list_images,
) -> Reading:
    """The images [3, size, size] of two folders: known categories in the one, the pile to discover in in the other.

    ``labelled`` has one folder a category, with images anywhere below it, or any shape if ``labels`` names a table of
    images (relative to ``labelled``) and labels. In a ``mixed`` pile images of known categories may hide. Names are
    paths relative to the one folder or the other. Files that cannot be used, or that are in both folders, are in
    ``skipped``, with the reason.
    """
    _require_apart(labelled, unlabelled)
    known, aside = labelled_images(labelled, labels, listing)
    pile = names_in_pile(unlabelled, listing)
    paths = [labelled / name for name in known] + [unlabelled / name for name in pile]
    reporter = reporter or Reporter(quiet=True)
    images, kept, unread = decode_cached(paths, size, cache=cache, reporter=reporter, workers=workers)

    reasons = {skip.file: skip.reason for skip in unread}
    _require_an_image_each(labelled, known, reasons)
    require_a_readable_image(unlabelled, pile, reasons)
    names = [*known, *pile]
    pool = Pool(
        images=images,
        names=[names[place] for place in kept],
        categories=[known[names[place]] if place < len(known) else None for place in kept],
    )
    warn_of_like_names(known.values(), reporter)
    row = np.arange(len(kept))
    labelled_rows = row[kept < len(known)]
    pile_rows, same = leave_out_known(pool, labelled_rows, row[kept >= len(known)], reporter)
    twice = [
        Skipped(str(unlabelled / pool.names[one]), f"the same image as {str(labelled / pool.names[other])!r}")
        for one, other in same.items()
    ]
    return assemble(
        pool,
        labelled=labelled_rows,
        unlabelled=pile_rows,
        n_novel=n_novel,
        seed=seed,
        mixed=mixed,
        skipped=tuple(sorted((*aside, *unread, *twice), key=lambda skip: skip.file)),
    )


def labelled_images(
    root: Path, table: Path | None = None, listing: Listing = list_images, *, emptied: bool = False
) -> tuple[dict[str, str], list[Skipped]]:
    """The category of each file below ``root``, by its name: its folder, or what the ``table`` says; and the files that
    have none. Where folders may have been ``emptied``, one without a file is no category."""
    return _by_folder(root, listing, emptied) if table is None else _by_table(root, table, listing)


def _by_folder(root: Path, listing: Listing, emptied: bool) -> tuple[dict[str, str], list[Skipped]]:
    """The category of each file, by its name, where a category is a folder in ``root``; and the other files."""
    folders = [entry.name for entry in _visible(root) if _is_folder(entry)]
    categories = [name for name in folders if name != DOUBTFUL]
    if not categories:
        raise UserError(
            f"{str(root)!r} has no category folders: put the images of each category you know in a folder of its own "
            "there, or give a table of labels (image,label) with --labels"
        )
    known: dict[str, str] = {}
    loose = []
    for name in _names(root, listing):
        category, _, below = name.partition("/")
        if category == DOUBTFUL:
            loose.append(Skipped(str(root / name), f"in {DOUBTFUL}, which holds images of doubtful category"))
        elif below or category in categories:  # the latter is listed if it cannot be opened
            known[name] = category
        else:
            loose.append(Skipped(str(root / name), "not in a category folder"))
    if (empty := set(categories) - set(known.values())) and not emptied:
        raise UserError(
            f"the category folder {str(root / min(empty))!r} holds no file of its own: put images of the category "
            "there, or remove the folder"
        )
    return known, loose


def _by_table(root: Path, table: Path, listing: Listing) -> tuple[dict[str, str], list[Skipped]]:
    """The category of each file that a table lists, by its name, whether it exists or not; and the files not listed."""
    rows = read_table(table)
    if not rows:
        raise UserError(f"{str(table)!r} lists no image: write a line image,label for each image you know")
    for name, row in rows.items():
        here = f"{str(table)!r}, line {row.line}"
        if name.startswith("/") or ".." in PurePosixPath(name).parts:
            raise UserError(f"{here}: {name!r} leads out of {str(root)!r}; write paths relative to that folder")
        if not row.label:
            raise UserError(f"{here}: image {name!r} has no label; add one or remove the line")
        require_a_name(row, table)
    known = {name: rows[name].label for name in sorted(rows)}
    itself = os.path.realpath(table)
    others = [root / name for name in _names(root, listing) if name not in rows]
    reason = f"not in {table.name}"
    return known, [Skipped(str(path), reason) for path in others if os.path.realpath(path) != itself]


def names_in_pile(root: Path, listing: Listing) -> list[str]:
    """The names of the files to discover categories in."""
    names = _names(root, listing)
    if not names:
        raise UserError(f"{str(root)!r} holds no file: put the images to discover categories in there")
    return names


def _require_apart(labelled: Path, unlabelled: Path) -> None:
    require_folder(labelled, "labelled")
    require_folder(unlabelled, "unlabelled")
    known, pile = Path(os.path.realpath(labelled)), Path(os.path.realpath(unlabelled))
    if known == pile:
        found = "are the same folder"
    elif known in pile.parents or pile in known.parents:
        found = "lie one inside the other"
    else:
        return
    raise UserError(
        f"the labelled images {str(labelled)!r} and the unlabelled ones {str(unlabelled)!r} {found}: "
        "an image is either known or to be discovered, so move one of the two elsewhere"
    )


def require_folder(root: Path, role: str) -> None:
    """Stop unless ``root`` is a folder that can be opened; ``role`` says which images are looked for there."""
    if not root.is_dir():
        found = "is not a folder" if os.path.lexists(root) else "does not exist"
        raise UserError(f"the folder of {role} images, {str(root)!r}, {found}: name a folder that holds images")
    try:
        _visible(root)
    except OSError as error:
        raise UserError(f"the folder of {role} images, {str(root)!r}, cannot be opened: {error.strerror}") from None


def _require_an_image_each(root: Path, known: dict[str, str], reasons: dict[str, str]) -> None:
    names_of: dict[str, list[str]] = {}
    for name, category in known.items():
        names_of.setdefault(category, []).append(name)
    for category, names in names_of.items():
        require_a_readable_image(root, names, reasons, f"category {category!r} in ")


def require_a_readable_image(root: Path, names: Sequence[str], reasons: dict[str, str], whose: str = "") -> None:
    files = [str(root / name) for name in names]
    if all(file in reasons for file in files):
        count = "1 file" if len(files) == 1 else f"{len(files):,} files"
        raise UserError(
            f"{whose}{str(root)!r} has no readable image: it has {count}, and {files[0]!r} cannot be used "
            f"({reasons[files[0]]}); put images there that open in an image viewer"
        )


def _names(root: Path, listing: Listing) -> list[str]:
    """The paths below ``root``, relative to it, of all files in it, in order."""
    return [path.relative_to(root).as_posix() for path in listing(root)]


def _visible(folder: Path | str) -> list[os.DirEntry[str]]:
    """What is in a folder and not hidden, by name."""
    with os.scandir(folder) as entries:
        return sorted((entry for entry in entries if not entry.name.startswith(".")), key=lambda entry: entry.name)


def _system_devices() -> set[int]:
    """The devices of file systems that hold no files of anybody's, and more folders than one can visit."""
    return {os.stat(path).st_dev for path in SYSTEM if os.path.ismount(path)}


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False


def _identity(path: Path | str) -> tuple[int, int]:
    found = os.stat(path)
    return found.st_dev, found.st_ino
