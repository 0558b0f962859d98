"""A run folder: what is in it, how it is written, and who may write to it."""

from __future__ import annotations

import contextlib
import csv
import errno
import io
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from newfound._version import __version__
from newfound.config.mapping import brief, from_mapping, load_yaml, to_mapping
from newfound.config.settings import Settings
from newfound.data.collection import Collection
from newfound.engine.checkpoint import NAMES as CHECKPOINTS
from newfound.errors import UserError
from newfound.files import clear_unfinished, no_follow, write_json, write_text
from newfound.methods import get_method
from newfound.plan.auto import Choice
from newfound.plan.call import Call

FORMAT = 2
"""Since 2 methods own their settings."""

DISK_FULL = (errno.ENOSPC, errno.EDQUOT)

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""How a cell begins that a spreadsheet calculates, instead of showing it; the last four are = + - @ at full width."""

CONFUSION = "confusion.csv"
CONFUSION_COLUMNS = ("part", "found", "truth", "images")

WRITTEN = (
    "settings.yaml", "collection.json", "metrics.jsonl", "checkpoint", "model", "assignments.csv", "skipped.csv",
    "categories.png", CONFUSION, "report.html", "report-pictures", "report.safetensors", "result.json", ".lock",
    "features.safetensors", "known.json", "known.safetensors", "start",
)  # fmt: skip
"""Everything that a run writes in its folder."""


@dataclass(frozen=True)
class Run:
    """A folder with settings.yaml (what was asked), collection.json (what was read), metrics.jsonl, checkpoint/,
    model/, assignments.csv, skipped.csv and, once it is finished, result.json, confusion.csv, report.html."""

    folder: Path
    call: Call
    settings: Settings
    auto: tuple[Choice, ...] = ()
    """What of the settings was chosen for the person."""
    warnings: tuple[str, ...] = ()
    """What was told before the run began."""
    counted: dict[str, Any] | None = None
    """What is known of the number of novel categories, where it was estimated."""

    @classmethod
    def create(
        cls,
        folder: Path,
        call: Call,
        settings: Settings,
        auto: Sequence[Choice] = (),
        warnings: Sequence[str] = (),
        counted: dict[str, Any] | None = None,
        *,
        begun: bool = False,
    ) -> Run:
        """A new run in an empty or new folder, or in one in which what it needs has ``begun`` to be written."""
        if not begun:
            check_free(folder)
        content = {
            "newfound": __version__,
            "format": FORMAT,
            "call": to_mapping(call),
            "settings": to_mapping(settings),
            "auto": [to_mapping(choice) for choice in auto],
            "warnings": list(warnings),
        }
        if counted is not None:
            content["counted"] = counted
        with _usable(folder):
            folder.mkdir(parents=True, exist_ok=True)
            write_text(folder / "settings.yaml", yaml.safe_dump(content, sort_keys=False, allow_unicode=True))
        return cls(folder, call, settings, tuple(auto), tuple(warnings), counted)

    @classmethod
    def open(cls, folder: Path, *, to_write: bool = False) -> Run:
        """The run in that folder; one that is opened to write to it has no links among its files and folders."""
        if to_write:
            refuse_links(folder)
        path = folder / "settings.yaml"
        try:
            content = load_yaml(path.read_text(encoding="utf-8", errors="surrogateescape"), str(path))
        except (FileNotFoundError, NotADirectoryError):
            raise UserError(f"there is no run in {folder}: settings.yaml is missing") from None
        except OSError as error:
            raise UserError(f"the run {folder} cannot be opened: settings.yaml: {_reason(error)}") from None
        try:
            version, written = int(content["format"]), content["newfound"]
            if version > FORMAT:
                raise UserError(
                    f"{folder} was written by a newer newfound ({written}; this is {__version__}): update it"
                )
            if version < FORMAT:
                raise UserError(f"{folder} was written by an older newfound ({written}): start a new run")
            settings = get_method(content["settings"]["method"]).Settings
            call = from_mapping(Call, content["call"], str(path))
            auto = tuple(from_mapping(Choice, choice, str(path)) for choice in content.get("auto") or ())
            warnings = tuple(str(warning) for warning in content.get("warnings") or ())
            counted = content.get("counted")
            if counted is not None and not isinstance(counted, dict):
                raise UserError(f"{path} does not describe a run: counted is {brief(counted)}")
            return cls(folder, call, from_mapping(settings, content["settings"], str(path)), auto, warnings, counted)
        except UserError:
            raise
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(f"{path} does not describe a run: {brief(error)}") from None

    @property
    def finished(self) -> bool:
        return (self.folder / "result.json").is_file()

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from writing to the folder; the lock goes with the process, however it ends."""
        import fcntl

        refuse_links(self.folder)
        try:
            file = open(self.folder / ".lock", "a", opener=no_follow)  # noqa: SIM115
        except OSError as error:
            if error.errno in DISK_FULL:
                raise
            raise UserError(f"cannot write to the run {self.folder}: .lock: {_reason(error)}") from None
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UserError(f"the run {self.folder} is in use by another process") from None
            except OSError as error:
                raise UserError(f"the run {self.folder} cannot be locked: {_reason(error)}") from None
            clear_unfinished(self.folder)
            yield

    def remember(self, collection: Collection) -> None:
        """Note what was read; on a later call, stop if it is something else."""
        path = self.folder / "collection.json"
        seen = {
            "labelled": collection.n_labelled,
            "unlabelled": collection.n_unlabelled,
            "test": len(collection.test) if collection.test is not None else 0,
            "classes": list(collection.classes),
            "tasks": [[task.name, len(collection.novel_of(task)), len(task.rows)] for task in collection.tasks],
            "fingerprint": collection.fingerprint(),
        }
        if not path.exists():
            refuse_links(self.folder)
            write_json(path, seen)
            return
        before = _read_json(path)
        if before != seen:
            counts = ", ".join(
                f"{k} {before.get(k)} then and {seen[k]} now" for k in ("labelled", "unlabelled", "test")
            )
            raise UserError(
                f"the images of the run {self.folder} have changed since it began ({counts}): start a new run"
            )

    def write_table(self, name: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """A CSV file of the run."""
        write_text(self.folder / name, format_table(header, rows))

    def write_confusion(self, confusion: Mapping[str, Sequence[tuple[str, str, int]]]) -> None:
        """confusion.csv: how many images of each true category each found one has; of parts that were not judged again
        (a data set's test images), what it said before stays."""
        parts: dict[str, list[Sequence[str]]] = {}
        if (self.folder / CONFUSION).exists():
            for row in self.read_table(CONFUSION, CONFUSION_COLUMNS):
                parts.setdefault(row["part"], []).append([row[column] for column in CONFUSION_COLUMNS])
        for part, pairs in confusion.items():
            parts[part] = [[part, found, truth, str(images)] for found, truth, images in pairs]
        self.write_table(CONFUSION, CONFUSION_COLUMNS, (row for rows in parts.values() for row in rows))

    def model_folder(self) -> Path:
        """Where the model of the run is, which has been written: it comes all at once."""
        folder = self.folder / "model"
        if not folder.exists():
            raise self._unfinished()
        return folder

    def read_result(self) -> dict[str, Any]:
        """What result.json holds: at least the names of the known and the novel categories."""
        try:
            result = _read_json(self.folder / "result.json")
        except FileNotFoundError:
            raise self._unfinished() from None
        for names in (result.get("known"), result.get("novel")):
            if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
                raise self._damaged("result.json", "does not name the known and the novel categories")
        return result

    def read_assignments(self) -> list[dict[str, str]]:
        """The rows of assignments.csv, as many as there were images: image, category, confidence."""
        rows = self.read_table("assignments.csv", ("image", "category", "confidence"))
        images = self.read_result().get("images")
        expected = images.get("unlabelled") if isinstance(images, dict) else None
        if expected not in (None, len(rows)):
            raise self._damaged("assignments.csv", f"has {len(rows)} lines, and the run had {expected} images")
        return rows

    def read_assigned(self, names: Sequence[str], classes: Sequence[str]) -> tuple[list[int], list[float]]:
        """For each of these images the place of its category in ``classes``, and the confidence."""
        row_of = {row["image"]: row for row in self.read_assignments()}
        place = {name: i for i, name in enumerate(classes)}
        try:
            rows = [row_of[name] for name in names]
            return [place[row["category"]] for row in rows], [float(row["confidence"]) for row in rows]
        except (KeyError, ValueError) as error:
            raise self._damaged("assignments.csv", f"does not fit the images ({error!r})") from None

    def read_table(self, name: str, columns: Sequence[str]) -> list[dict[str, str]]:
        """The rows of a CSV file of the run, which has at least these columns."""
        path = self.folder / name
        try:
            with open(path, encoding="utf-8", errors="surrogateescape", newline="") as file:
                rows = parse_table(file)
        except FileNotFoundError:
            raise (self._damaged(name, "is missing") if self.finished else self._unfinished()) from None
        except (OSError, csv.Error) as error:
            raise UserError(f"{path} cannot be read: {_reason(error)}") from None
        if any(row.get(column) is None for row in rows for column in columns):
            raise UserError(f"{path} has a line without {', '.join(columns[:-1])} or {columns[-1]}")
        return rows

    def _unfinished(self) -> UserError:
        return UserError(f"the run {self.folder} is not finished: newfound resume {self.folder}")

    def _damaged(self, name: str, reason: str) -> UserError:
        """What to say of a file of a finished run; a run that has no result is resumed to make it again."""
        again = f"move {self.folder / 'result.json'} away and call `newfound resume {self.folder}` to make it again"
        return UserError(f"{self.folder / name} {reason}: {again}")


def read_near(result: Mapping[str, Any]) -> dict[str, list[str]]:
    """For each novel category of a result the known ones that it is near, nearest first; none where it does not say."""
    found, known = result.get("near"), set(result.get("known", ()))
    found = found if isinstance(found, dict) else {}
    names = {name: found.get(name) for name in result["novel"]}
    return {
        name: [other for other in some if isinstance(other, str) and other in known] if isinstance(some, list) else []
        for name, some in names.items()
    }


def format_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """CSV text that ``parse_table`` reads back as it was given, and in which a spreadsheet finds no formula.

    A name that a spreadsheet would calculate gets ./ before it where it is a file's, which is the same path, and an
    apostrophe where it is not. Python leaves a carriage return without quotes, and then a row that has one ends there
    for every reader; such a row is quoted throughout."""
    text = io.StringIO()
    plain = csv.writer(text, lineterminator="\n")
    quoted = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL)
    (quoted if any("\r" in name for name in header) else plain).writerow(header)
    marks = [_mark(column) for column in header]
    for row in rows:
        cells = [mark + cell if _calculates(cell, mark) else cell for mark, cell in zip(marks, row, strict=True)]
        (quoted if any("\r" in cell for cell in cells) else plain).writerow(cells)
    return text.getvalue()


def parse_table(file: Iterable[str]) -> list[dict[str, str]]:
    """The rows of such a table, by the names of its columns."""
    rows: list[dict[str, str]] = list(csv.DictReader(file))
    for row in rows:
        for column, cell in row.items():
            mark = _mark(column)
            if isinstance(cell, str) and cell.startswith(mark) and _calculates(cell, mark):
                row[column] = cell.removeprefix(mark)
    return rows


def _mark(column: str) -> str:
    return "./" if column in ("image", "file") else "'"


def _calculates(cell: str, mark: str) -> bool:
    """Whether a spreadsheet would take the cell for a formula, or somebody for one that was marked already."""
    while cell.startswith(mark):
        cell = cell.removeprefix(mark)
    return cell.startswith(FORMULA)


def refuse_links(folder: Path) -> None:
    """Stop if something that a run writes in ``folder`` is a symbolic link: writing, or clearing old checkpoints away,
    would change what lies elsewhere. ``folder`` itself may be a link."""
    checkpoints = (folder / "checkpoint").glob(CHECKPOINTS) if os.path.isdir(folder / "checkpoint") else ()
    for path in (*(folder / name for name in WRITTEN), *checkpoints):
        if os.path.islink(path):
            raise UserError(
                f"{path} is a symbolic link, and newfound writes only inside a run folder: "
                "replace the link by what it points to, or remove it"
            )


def check_free(folder: Path) -> None:
    """Stop unless ``folder`` is new or empty: a run never mixes with what was there."""
    with _usable(folder):
        if (folder / "settings.yaml").is_file():
            raise UserError(
                f"{folder} holds a run already: go on with `newfound resume {folder}`, or choose another --out"
            )
        if folder.is_symlink() and not folder.exists():
            raise UserError(f"{folder} is a link to nothing: choose another --out")
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise UserError(f"{folder} is not an empty folder: choose another --out")


@contextlib.contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """The folder of a run to come, made and tried before anything is read. If what follows fails and leaves it empty,
    it goes again, with the folders above that were made for it."""
    check_free(folder)
    with _usable(folder):
        made = [place for place in (folder, *folder.parents) if not place.exists()]
    try:
        with _usable(folder):
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
        yield
    except BaseException:
        for place in made:
            with contextlib.suppress(OSError):
                place.rmdir()
        raise


@contextlib.contextmanager
def _usable(folder: Path) -> Iterator[None]:
    """While entered, what the file system refuses is a sentence about --out; a full disk remains what it is."""
    try:
        yield
    except OSError as error:
        if error.errno in DISK_FULL:
            raise
        raise UserError(f"cannot write to {folder}: {_reason(error)}; choose another --out") from None


def _read_json(path: Path) -> dict[str, Any]:
    """What a JSON file of the run holds; names that are not UTF-8 keep their bytes."""
    try:
        content = json.loads(path.read_text(encoding="utf-8", errors="surrogateescape"))
    except FileNotFoundError:
        raise
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path} cannot be read: {_reason(error)}") from None
    if not isinstance(content, dict):
        raise UserError(f"{path} cannot be read: it holds no names and values")
    return content


def _reason(error: BaseException) -> str:
    """Why something failed, without the file's name."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
