"""A run folder: what is in it, how it is written, and who may write to it."""

from __future__ import annotations

import contextlib
import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from newfound._version import __version__
from newfound.data.collection import Collection
from newfound.data.sources import Source
from newfound.errors import UserError
from newfound.files import write_json, write_text
from newfound.methods import get_method
from newfound.settings import Settings, from_mapping, load_yaml, to_mapping

FORMAT = 1


@dataclass(frozen=True)
class Call:
    """What was asked for, beside the recipe; with ``settings`` it determines a run."""

    source: Source
    seed: int
    device: str
    threads: int
    cache: str


@dataclass(frozen=True)
class Run:
    """A folder with settings.yaml (what was asked), collection.json (what was read), metrics.jsonl, checkpoint/,
    model/, assignments.csv, skipped.csv and, once it is finished, result.json."""

    folder: Path
    call: Call
    settings: Settings

    @classmethod
    def create(cls, folder: Path, call: Call, settings: Settings) -> Run:
        """A new run in an empty or new folder."""
        check_free(folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            content = {
                "newfound": __version__,
                "format": FORMAT,
                "call": to_mapping(call),
                "settings": to_mapping(settings),
            }
            write_text(folder / "settings.yaml", yaml.safe_dump(content, sort_keys=False, allow_unicode=True))
        except PermissionError as error:
            raise UserError(f"cannot write to {folder}: {error.strerror}; choose another --out") from None
        return cls(folder, call, settings)

    @classmethod
    def open(cls, folder: Path) -> Run:
        """The run in that folder."""
        path = folder / "settings.yaml"
        try:
            content = load_yaml(path.read_text(encoding="utf-8", errors="surrogateescape"), str(path))
        except (FileNotFoundError, NotADirectoryError):
            raise UserError(f"there is no run in {folder}: settings.yaml is missing") from None
        try:
            version, written = int(content["format"]), content["newfound"]
            if version > FORMAT:
                raise UserError(
                    f"{folder} was written by a newer newfound ({written}; this is {__version__}): update it"
                )
            settings = get_method(content["settings"]["method"]).settings
            call = from_mapping(Call, content["call"], str(path))
            return cls(folder, call, from_mapping(settings, content["settings"], str(path)))
        except (KeyError, TypeError) as error:
            raise UserError(f"{path} does not describe a run: {error!r}") from None

    @property
    def finished(self) -> bool:
        return (self.folder / "result.json").is_file()

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from writing to the folder; the lock goes with the process, however it ends."""
        import fcntl

        with open(self.folder / ".lock", "w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise UserError(f"the run {self.folder} is in use by another process") from None
            yield

    def remember(self, collection: Collection) -> None:
        """Note what was read; on a later call, stop if it is something else."""
        path = self.folder / "collection.json"
        seen = {
            "labelled": collection.n_labelled,
            "unlabelled": collection.n_unlabelled,
            "test": len(collection.test) if collection.test is not None else 0,
            "classes": list(collection.classes),
            "tasks": [[task.name, task.n_novel, len(task.rows)] for task in collection.tasks],
            "fingerprint": collection.fingerprint(),
        }
        if not path.exists():
            write_json(path, seen)
            return
        before = json.loads(path.read_text(encoding="utf-8", errors="surrogateescape"))
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

    def read_result(self) -> dict[str, Any]:
        try:
            result: dict[str, Any] = json.loads((self.folder / "result.json").read_text(encoding="utf-8"))
            return result
        except FileNotFoundError:
            raise UserError(f"the run {self.folder} is not finished: newfound resume {self.folder}") from None
        except (OSError, ValueError) as error:
            raise UserError(f"{self.folder / 'result.json'} cannot be read: {error}") from None

    def read_assignments(self) -> list[dict[str, str]]:
        """The rows of assignments.csv: image, category, confidence."""
        try:
            with open(self.folder / "assignments.csv", encoding="utf-8", errors="surrogateescape", newline="") as file:
                return list(csv.DictReader(file))
        except FileNotFoundError:
            raise UserError(f"the run {self.folder} is not finished: newfound resume {self.folder}") from None


def format_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue()


def check_free(folder: Path) -> None:
    """Stop unless ``folder`` is new or empty: a run never mixes with what was there."""
    if (folder / "settings.yaml").is_file():
        raise UserError(f"{folder} holds a run already: go on with `newfound resume {folder}`, or choose another --out")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} is not an empty folder: choose another --out")
