"""Laying images out in folders, one for each category; the originals stay where they are."""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import re
import shutil
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import torch
from PIL import Image

from newfound.data.folder import DOUBTFUL
from newfound.data.sources import Source
from newfound.errors import UserError
from newfound.files import clear_unfinished, held_folder, opened_folder, write_text, writing_to
from newfound.model.onnx import ENDING
from newfound.progress import Reporter
from newfound.runfolder import Run
from newfound.tables import format_table

if TYPE_CHECKING:
    from newfound.runs.found import Discovery
    from newfound.runs.predict import Prediction

LIST, CATEGORIES = "_images.csv", "_categories.csv"
TABLES = (".csv", ".tsv", ".json", ".xlsx")
"""Endings of names that are meant for a file."""
LINKS = ("symlink", "hard")
LONGEST = 200
"""Bytes of a name; file systems take 255, and copies elsewhere may get more around theirs."""

Put = Callable[[int, Path], None]
"""Puts the image of that number at a path."""

_UNSAFE = re.compile(r'[\x00-\x1f\x7f/\\:*?"<>|]')
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(\..*)?", re.IGNORECASE)


def export(
    found: Discovery,
    to: Path,
    *,
    link: str | None = None,
    min_confidence: float = 0.0,
    pile: Path | None = None,
    reporter: Reporter,
) -> dict[str, int]:
    """Put the images of a run's pile into the new folder ``to``, and give the number of images in each folder there.

    ``Discovery.export`` says what the options mean. All is laid out under another name, which becomes ``to`` at the
    end: an export that fails or is interrupted leaves nothing.
    """
    run = Run.open(found.folder)
    _check_options(run.call.source, link, min_confidence, pile)
    to = Path(os.path.realpath(to))
    source = run.call.source
    if not run.ours and pile is None and _has_files(run):
        reason = "was not made by this user here, so what it says of where its images are is not believed"
        raise UserError(f"the run {run.folder} {reason}: name the folder to take them from with --pile")
    _require_outside([Path(root) for root in (source.labelled, source.unlabelled, pile) if root], to)
    _require_free(to)
    put, names = _files(found, run.call.source, pile, link, to) if _has_files(run) else _pictures(found, run, reporter)
    sure = [confidence >= min_confidence for confidence in found.confidence]
    folder_of = safe_names(found.categories, taken=(DOUBTFUL, LIST, CATEGORIES))
    folders = [folder_of[name] if s else DOUBTFUL for name, s in zip(found.categories, sure, strict=True)]
    rows = zip(found.images, found.categories, found.confidence, strict=True)
    laid_out = Counter(folders)
    about = []
    for name in found.sizes():
        folder = folder_of.get(name, "")
        images = laid_out[folder]
        about.append((folder if images else "", name, str(images), ", ".join(found.near(name))))
    if laid_out[DOUBTFUL]:
        about.append((DOUBTFUL, "", str(laid_out[DOUBTFUL]), ""))
    return _lay_out(to, folders, names, put, list(rows), reporter, about)


def export_predictions(
    found: Sequence[Prediction], given: Sequence[Path], to: Path, *, link: str | None = None, reporter: Reporter
) -> dict[str, int]:
    """Put the images of predictions, from the files and folders ``given``, into the new folder ``to``, as ``export``
    does those of a pile; rejected ones go to ``DOUBTFUL``. Gives the number of images in each folder."""
    check_target(to, given, link)
    to, files = Path(os.path.realpath(to)), [Path(os.path.realpath(one.image)) for one in found]
    folder_of = safe_names([one.category for one in found], taken=(DOUBTFUL, LIST))
    folders = [DOUBTFUL if one.rejected else folder_of[one.category] for one in found]
    rows = [(one.image, one.category, one.confidence) for one in found]
    names = [Path(one.image).name for one in found]
    return _lay_out(to, folders, names, _putter(files, link, to), rows, reporter)


def check_target(to: Path, given: Sequence[Path], link: str | None) -> None:
    """Stop if images from the files and folders ``given`` cannot be laid out in the folder ``to``."""
    _check_link(link)
    to = Path(os.path.realpath(to))
    _require_outside(given, to)
    _require_free(to)


def _lay_out(
    to: Path,
    folders: Sequence[str],
    names: Sequence[str],
    put: Put,
    rows: Sequence[tuple[str, str, float]],
    reporter: Reporter,
    about: Sequence[tuple[str, str, str, str]] = (),
) -> dict[str, int]:
    """Put image after image into its folder below ``to``, and list them with their ``rows``: image, category and
    confidence; and, if given, ``about`` the categories: folder, category, images and known categories near it."""
    places = _places(folders, names)
    with _laid_out(to) as new, reporter.task("exporting", len(places)) as task:
        for folder in dict.fromkeys(folders):
            (new / folder).mkdir()
        for number, place in enumerate(places):
            put(number, new / place)
            task.advance(1)
        lines = [(place, *row[:2], f"{row[2]:.6f}") for place, row in zip(places, rows, strict=True)]
        write_text(new / LIST, format_table(["file", "image", "category", "confidence"], sorted(lines)))
        if about:
            write_text(new / CATEGORIES, format_table(["folder", "category", "images", "near_to"], about))
    return dict(sorted(Counter(folders).items()))


def safe_names(names: Sequence[str], taken: Sequence[str] = ()) -> dict[str, str]:
    """For each name one that a folder can have anywhere and that leads nowhere else, no two alike."""
    used = {_alike(name): 1 for name in taken}
    safe: dict[str, str] = {}
    for name in dict.fromkeys(names):
        safe[name] = _unused(safe_name(name), used)
    return safe


def safe_name(name: str) -> str:
    """The name without what a file system, here or elsewhere, would refuse or understand as something else."""
    name = _UNSAFE.sub("_", name).strip().rstrip(". ")
    if not name:
        return "unnamed"
    if name.startswith((".", "~")) or _RESERVED.fullmatch(name):
        name = f"_{name}"
    return _shortened(name, LONGEST)


def _shortened(name: str, most: int) -> str:
    """The name in at most so many bytes; a file's ending stays."""
    if len(os.fsencode(name)) <= most:
        return name
    ending = Path(name).suffix
    ending = ending if len(os.fsencode(ending)) <= 16 else ""
    stem = name.removesuffix(ending)
    while len(os.fsencode(stem)) > most - len(os.fsencode(ending)):
        stem = stem[:-1]
    return stem.rstrip() + ending


def _alike(name: str) -> str:
    """The same for names that some file systems take for one."""
    return unicodedata.normalize("NFC", name).casefold()


def _unused(name: str, used: dict[str, int]) -> str:
    """The name, or name-2, name-3, … (before the ending of a file) if it is used; it is then used too.

    ``used`` has the number that was given last to names like it, so that ten thousand equal ones take no longer each.
    """
    found, ending = name, Path(name).suffix
    while _alike(found) in used:
        used[_alike(name)] += 1
        found = f"{name.removesuffix(ending)}-{used[_alike(name)]}{ending}"
    used[_alike(found)] = 1
    return found


def _places(folders: Sequence[str], names: Sequence[str]) -> list[str]:
    """Where each image goes, relative to the new folder: folder and name."""
    used: dict[str, dict[str, int]] = {}
    return [
        f"{folder}/{_unused(safe_name(name), used.setdefault(folder, {}))}"
        for folder, name in zip(folders, names, strict=True)
    ]


def _check_options(source: Source, link: str | None, min_confidence: float, pile: Path | None) -> None:
    _check_link(link)
    if not 0 <= min_confidence <= 1:
        raise UserError(f"--min-confidence {min_confidence}: it has to be from 0 to 1")
    if source.features:
        raise UserError("this run was made of features, so there are no images to lay out: see assignments.csv")
    if source.dataset and (link or pile):
        option = "--link" if link else "--pile"
        raise UserError(f"{option} is for folders: the images of the data set {source.dataset} are written as PNG")
    if pile is not None and not pile.is_dir():
        raise UserError(f"--pile {pile} is not a folder: say where the unlabelled images are")


def _check_link(link: str | None) -> None:
    if link is not None and link not in LINKS:
        raise UserError(f"--link {link}: it can be {' or '.join(LINKS)}; without it images are copied")


def _has_files(run: Run) -> bool:
    return run.call.source.dataset is None


def _require_outside(images: Sequence[Path], to: Path) -> None:
    """Stop if the new folder would lie among the images: the next run would read them twice."""
    for root in images:
        if to.is_relative_to(os.path.realpath(root)):
            raise UserError(f"--to {to} lies inside {root}, among the images: choose a place outside")


def _require_free(to: Path) -> None:
    if to.suffix.lower() in TABLES and not to.is_dir():
        table = "assignments.csv in the run folder is the table of categories"
        raise UserError(f"--to {to} looks like a file, and export makes a folder of images: name one; {table}")
    if to.suffix.lower() == ENDING and not to.is_dir():
        raise UserError(
            f"--to {to} names a model, and this makes a folder of images: a model is written by export_onnx"
        )
    with writing_to(to, "--to"):
        if to.exists() and not to.is_dir():
            raise UserError(f"--to {to} is a file: name a folder that is new or empty")
        if to.exists() and any(to.iterdir()):
            raise UserError(f"--to {to} is not empty, and nothing there is to be lost: name a new folder")


def _files(found: Discovery, source: Source, pile: Path | None, link: str | None, to: Path) -> tuple[Put, list[str]]:
    """How to put the files of the pile somewhere else, and their names without folders."""
    assert source.unlabelled
    root = Path(os.path.realpath(pile or source.unlabelled))
    for image in found.images:
        if PurePosixPath(image).is_absolute() or ".." in PurePosixPath(image).parts:
            raise UserError(f"assignments.csv of {found.folder} names {image!r}, which is not in the pile {root}")
    files = [root / image for image in found.images]
    if missing := [file for file in files if not os.path.isfile(file)]:
        raise UserError(
            f"{len(missing):,} of the {len(files):,} images are not in {root} any more, such as {missing[0].name!r}: "
            "if the pile has moved, say where it is with --pile"
        )
    return _putter(files, link, to), [file.name for file in files]


def _putter(files: Sequence[Path], link: str | None, to: Path) -> Put:
    """How to put files somewhere below ``to``: as copies, for which there has to be room, or as links."""
    if link is None:
        _require_space(files, to)

    def put(row: int, place: Path) -> None:
        if link == "symlink":
            place.symlink_to(files[row])
        elif link == "hard":
            _link_hard(files[row], place)
        else:
            shutil.copy2(files[row], place)

    return put


def _link_hard(file: Path, place: Path) -> None:
    try:
        os.link(os.path.realpath(file), place)
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.EPERM, errno.ENOTSUP, errno.EMLINK):
            raise
        reason = f"hard links to {file.parent} cannot be made here ({error.strerror})"
        raise UserError(f"{reason}: take --link symlink, or leave --link out for copies") from None


def _require_space(files: Sequence[Path], to: Path) -> None:
    above = next(place for place in to.parents if place.exists())
    needed, free = sum(file.stat().st_size for file in files), shutil.disk_usage(above).free
    if needed > free:
        raise UserError(
            f"copies of the images take {needed / 1e9:,.1f} GB, and {above} has {free / 1e9:,.1f} GB left: "
            "choose another --to, or --link symlink"
        )


def _pictures(found: Discovery, run: Run, reporter: Reporter) -> tuple[Put, list[str]]:
    """How to write the images of a data set as PNG files, and the names of these."""
    from newfound.runs.discovery import read_call

    reading = read_call(run.call, run.settings, reporter)
    run.remember(reading.collection)
    row_of = {name: row for row, name in enumerate(reading.names.unlabelled, reading.collection.n_labelled)}
    if strange := next((image for image in found.images if image not in row_of), None):
        raise UserError(f"assignments.csv of {run.folder} names {strange!r}, which is not in the data set")

    def put(row: int, place: Path) -> None:
        image = reading.collection.train.batch(torch.tensor([row_of[found.images[row]]]))[0].numpy()
        Image.fromarray(image[0] if len(image) == 1 else image.transpose(1, 2, 0)).save(place, format="PNG")

    return put, [f"{PurePosixPath(image).name.removesuffix('.png')}.png" for image in found.images]


@contextlib.contextmanager
def _laid_out(to: Path) -> Iterator[Path]:
    """A folder to fill, which becomes ``to`` by one rename; if filling it fails it is removed, and so are the folders
    above it that were made for it."""
    short = to.with_name(_shortened(to.name, LONGEST))
    with writing_to(to, "--to"):
        made = [place for place in to.parents if not place.exists()]
    try:
        with writing_to(to, "--to"):
            to.parent.mkdir(parents=True, exist_ok=True)
            clear_unfinished(to.parent, glob.escape(short.name))
        with contextlib.ExitStack() as held:
            with writing_to(to, "--to"):
                above = held.enter_context(opened_folder(to.parent))
                name, _ = held.enter_context(held_folder(short, above))
            new = short.with_name(name)
            try:
                yield new
                with writing_to(to, "--to"):
                    os.rename(new, to)  # onto an empty folder, never onto one that has been filled meanwhile
            except BaseException:
                shutil.rmtree(new, ignore_errors=True)
                raise
    except BaseException:
        for place in made:
            with contextlib.suppress(OSError):
                place.rmdir()
        raise
