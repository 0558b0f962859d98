"""Writing files so that a crash leaves either the old one or the new one, never half of one."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def sync_directory(folder: Path) -> None:
    """Make renames inside ``folder`` survive a power failure."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_file(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_text(path: Path, text: str) -> None:
    """Replace ``path`` by ``text`` in one rename; names that are not UTF-8 keep their bytes."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.writing")
    try:
        temporary.write_bytes(text.encode("utf-8", errors="surrogateescape"))
        sync_file(temporary)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def write_json(path: Path, content: Any) -> None:
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


@contextlib.contextmanager
def new_directory(path: Path) -> Iterator[Path]:
    """A folder to fill, which becomes ``path`` by one rename once its files have reached the disk.

    If filling it fails it is removed, and an earlier ``path`` stays as it was.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.writing")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    try:
        yield temporary
        for file in temporary.iterdir():
            sync_file(file)
        sync_directory(temporary)
        if path.exists():
            retired = path.with_name(f".{path.name}.{os.getpid()}.retired")
            os.rename(path, retired)
            os.rename(temporary, path)
            shutil.rmtree(retired, ignore_errors=True)
        else:
            os.rename(temporary, path)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    sync_directory(path.parent)
