"""metrics.jsonl: one line every few steps, each step once, whatever interrupted the run."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

from newfound.errors import UserError
from newfound.files import open_regular, write_bytes
from newfound.strangers import read_small


class Metrics:
    """A growing file of JSON lines. Nothing that differs between two equal runs (times, rates) belongs in it."""

    def __init__(self, path: Path) -> None:
        with contextlib.suppress(FileNotFoundError):
            if os.lstat(path).st_nlink > 1:  # a file that has another name, in a copy of the run, say, stays as it is
                write_bytes(path, read_small(path))
        self._file = open(path, "ab", opener=open_regular)  # type: ignore[arg-type]  # noqa: SIM115 - open as long as the run is

    def write(self, line: dict[str, Any]) -> None:
        self._file.write(json.dumps(line).encode() + b"\n")
        self._file.flush()

    def commit(self) -> int:
        """Make what was written durable; gives the length in bytes, for ``rewind``."""
        self._file.flush()
        os.fsync(self._file.fileno())
        return self._file.tell()

    def rewind(self, length: int) -> None:
        """Forget the lines written after ``commit`` gave ``length``: their steps will be done again."""
        if self._file.seek(0, os.SEEK_END) < length:
            raise UserError(
                f"{self._file.name} is shorter than the checkpoint says: the run cannot go on; start a new one"
            )
        self._file.truncate(length)
        self._file.seek(0, os.SEEK_END)

    def close(self) -> None:
        self._file.close()
