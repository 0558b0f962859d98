"""A run folder: what is in it, how it is written, and who may write to it."""

from __future__ import annotations

import contextlib
import csv
import io
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from newfound._version import __version__
from newfound.config.mapping import brief, cut, from_mapping, load_yaml, to_mapping
from newfound.config.settings import Settings
from newfound.data.cache import default_cache
from newfound.data.collection import Collection
from newfound.engine.checkpoint import NAMES as CHECKPOINTS
from newfound.errors import UserError
from newfound.files import (
    DISK_FULL,
    TEMPORARY,
    as_json,
    clear_unfinished,
    encoded,
    open_regular,
    try_lock,
    write_bytes,
    writing_to,
)
from newfound.methods import get_method, method_names
from newfound.ours import is_ours, mark
from newfound.plan.auto import Choice
from newfound.plan.call import Call
from newfound.strangers import SMALL, parse_json, read_small
from newfound.tables import format_table, parse_table
from newfound.together import JOURNAL, change_together, finish_change

FORMAT = 2
"""Since 2 methods own their settings."""

CONFUSION = "confusion.csv"
CONFUSION_COLUMNS = ("part", "found", "truth", "images")

WRITTEN = (
    "settings.yaml", "collection.json", "metrics.jsonl", "checkpoint", "model", "assignments.csv", "skipped.csv",
    "categories.png", CONFUSION, "report.html", "report-pictures", "report.safetensors", "result.json", ".lock",
    "features.safetensors", "known.json", "known.safetensors", "start", "snapshots",
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
    snapshots: tuple[str, ...] = ()
    """Of which epochs features are kept, as STAGE:EPOCH."""
    ours: bool = True
    """Whether this user made it here. The places that another's run names are not taken on trust."""
    held_back: dict[str, bytes] | None = field(default=None, compare=False, repr=False)
    """What has been written since ``together`` began, by file."""

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
        snapshots: Sequence[str] = (),
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
            "mark": mark(to_mapping(call)),
        }
        content |= {} if counted is None else {"counted": counted}
        content |= {"snapshots": list(snapshots)} if snapshots else {}
        with writing_to(folder, "--out"):
            folder.mkdir(parents=True, exist_ok=True)
            text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True)
            write_bytes(folder / "settings.yaml", encoded(text))  # from here on it is a run
        return cls(folder, call, settings, tuple(auto), tuple(warnings), counted, tuple(snapshots))

    @classmethod
    def open(cls, folder: Path, *, to_write: bool = False) -> Run:
        """The run in that folder; one that is opened to write to it has no links among its files and folders."""
        if to_write:
            refuse_links(folder)
        if os.path.lexists(folder / JOURNAL):  # a command was killed while it changed several files
            with contextlib.suppress(UserError, OSError), _locked(folder):
                pass
        path = folder / "settings.yaml"
        try:
            content = load_yaml(read_small(path, SMALL).decode("utf-8", errors="surrogateescape"), str(path))
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
            method = str(content["settings"]["method"])
            if method not in method_names():
                raise UserError(f"the run {folder} is of the method {cut(method)}, which is not installed here")
            settings = get_method(method).Settings
            call = from_mapping(Call, content["call"], str(path))
            auto = tuple(from_mapping(Choice, choice, str(path)) for choice in content.get("auto") or ())
            warnings = tuple(str(warning) for warning in content.get("warnings") or ())
            counted = content.get("counted")
            if counted is not None and not isinstance(counted, dict):
                raise UserError(f"{path} does not describe a run: counted is {brief(counted)}")
            snapshots = tuple(str(epoch) for epoch in content.get("snapshots") or ())
            ours = is_ours(to_mapping(call), content.get("mark"))
            if not ours:
                call = replace(call, cache=str(default_cache()))
            if call.source.known:  # the list is in the run's folder, wherever that is now
                call = replace(call, source=replace(call.source, known=str(folder.absolute() / "known.json")))
            values = from_mapping(settings, content["settings"], str(path))
            return cls(folder, call, values, auto, warnings, counted, snapshots, ours)
        except UserError:
            raise
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise UserError(f"{path} does not describe a run: {brief(error)}") from None

    @property
    def finished(self) -> bool:
        return (self.folder / "result.json").is_file()

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from writing to the folder; the lock goes with the process, however it ends."""
        with _locked(self.folder):
            yield

    @contextlib.contextmanager
    def together(self) -> Iterator[Run]:
        """The run as one that holds back what is written to it until the end, and then changes all of it or nothing;
        what is read from it is what was written."""
        pending = replace(self, held_back={})
        yield pending
        change_together(self.folder, pending.held_back or {})

    def write(self, name: str, content: bytes) -> None:
        """Replace a file of the run in one rename."""
        if self.held_back is None:
            write_bytes(self.folder / name, content)
        else:
            self.held_back[name] = content

    def has(self, name: str) -> bool:
        """Whether the run has a file of this name, one that is held back included."""
        return name in (self.held_back or {}) or (self.folder / name).exists()

    def write_json(self, name: str, content: Any) -> None:
        self.write(name, as_json(content))

    def _read(self, name: str) -> bytes:
        held_back = (self.held_back or {}).get(name)
        return read_small(self.folder / name) if held_back is None else held_back

    def _read_json(self, name: str) -> dict[str, Any]:
        """What a JSON file of the run holds; names that are not UTF-8 keep their bytes."""
        path = self.folder / name
        try:
            content = parse_json(self._read(name).decode("utf-8", errors="surrogateescape"))
        except FileNotFoundError:
            raise
        except (OSError, ValueError) as error:
            raise UserError(f"{path} cannot be read: {_reason(error)}") from None
        if not isinstance(content, dict):
            raise UserError(f"{path} cannot be read: it holds no names and values")
        return content

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
            self.write_json(path.name, seen)
            return
        before = self._read_json(path.name)
        if before != seen:
            counts = ", ".join(
                f"{k} {before.get(k)} then and {seen[k]} now" for k in ("labelled", "unlabelled", "test")
            )
            raise UserError(
                f"the images of the run {self.folder} have changed since it began ({counts}): start a new run"
            )

    def write_table(self, name: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """A CSV file of the run."""
        self.write(name, encoded(format_table(header, rows)))

    def write_confusion(self, confusion: Mapping[str, Sequence[tuple[str, str, int]]]) -> None:
        """confusion.csv: how many images of each true category each found one has; of parts that were not judged again
        (a data set's test images), what it said before stays."""
        parts: dict[str, list[Sequence[str]]] = {}
        if self.has(CONFUSION):
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
            result = self._read_json("result.json")
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
            text = self._read(name).decode("utf-8", errors="surrogateescape")
            rows = parse_table(io.StringIO(text, newline=""))
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


def refuse_links(folder: Path) -> None:
    """Stop if something that a run writes in ``folder`` is a symbolic link: writing, or clearing old checkpoints away,
    would change what lies elsewhere. ``folder`` itself may be a link."""
    checkpoints = (folder / "checkpoint").glob(CHECKPOINTS) if os.path.isdir(folder / "checkpoint") else ()
    for path in (*(folder / name for name in (*WRITTEN, JOURNAL)), *checkpoints):
        if os.path.islink(path):
            raise UserError(
                f"{path} is a symbolic link, and newfound writes only inside a run folder: "
                "replace the link by what it points to, or remove it"
            )


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a run folder, and end what a process that was killed began to change there."""
    refuse_links(folder)
    handle = _lock(folder)
    try:
        finish_change(folder, WRITTEN)
        clear_unfinished(folder)
        yield
    finally:
        os.close(handle)


def _lock(folder: Path) -> int:
    """A handle of the folder's lock, which nobody else holds as long as it is open."""
    path = folder / ".lock"
    while True:
        try:
            handle = open_regular(path, os.O_RDWR | os.O_CREAT)
        except OSError as error:
            if error.errno in DISK_FULL:
                raise
            raise UserError(f"cannot write to the run {folder}: .lock: {_reason(error)}") from None
        held = try_lock(handle)
        if held:
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(handle), os.stat(path)):
                    return handle
        os.close(handle)
        if held is not True:
            why = "is in use by another process" if held is False else "is on a file system that cannot lock files"
            raise UserError(f"the run {folder} {why}")


def check_free(folder: Path) -> None:
    """Stop unless ``folder`` is new or empty: a run never mixes with what was there. What a process that was killed
    before there was a run left there (a lock, or a file half written) does not count."""
    with writing_to(folder, "--out"):
        if (folder / "settings.yaml").is_file():
            raise UserError(
                f"{folder} holds a run already: go on with `newfound resume {folder}`, or choose another --out"
            )
        if folder.is_symlink() and not folder.exists():
            raise UserError(f"{folder} is a link to nothing: choose another --out")
        if folder.exists() and (not folder.is_dir() or any(not _left_over(path) for path in folder.iterdir())):
            raise UserError(f"{folder} is not an empty folder: choose another --out")


def _left_over(path: Path) -> bool:
    """Whether it is what a run that never began left: its lock, or its settings half written."""
    own = path.name == ".lock" or ((found := TEMPORARY.fullmatch(path.name)) and found["name"] == "settings.yaml")
    return bool(own) and path.is_file() and not path.is_symlink()


@contextlib.contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """The folder of a run to come, made, tried and locked before anything is read. If what follows fails before there
    is a run, it goes again, with the folders above that were made for it."""
    check_free(folder)
    with writing_to(folder, "--out"):
        made = [place for place in (folder, *folder.parents) if not place.exists()]
    try:
        with writing_to(folder, "--out"):
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
        with _locked(folder):
            try:
                check_free(folder)  # another process may have been faster
                yield
            except BaseException:
                if not (folder / "settings.yaml").exists():
                    (folder / ".lock").unlink(missing_ok=True)
                raise
    except BaseException:
        for place in made:
            with contextlib.suppress(OSError):
                place.rmdir()
        raise


def _reason(error: BaseException) -> str:
    """Why something failed, without the file's name."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
