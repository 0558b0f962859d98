"""Writing files so that a crash leaves either the old one or the new one, never half of one, and no link is followed.

What is being written is called .NAME.TOKEN.writing, and what it replaces .NAME.TOKEN.retired, with a random TOKEN.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

ABANDONED = 24 * 3600
"""Seconds without a byte after which nobody is still writing; on a shared disk it may be another machine that is."""

TOKEN = 8
"""Hexadecimal digits in the name of a temporary file."""


def temporary_name(path: Path, ending: str = "writing") -> Path:
    """A name beside ``path`` that nobody can guess, and that ``clear_unfinished`` knows."""
    return path.with_name(f".{path.name}.{secrets.token_hex(TOKEN // 2)}.{ending}")


def no_follow(path: str, flags: int) -> int:
    """An ``opener`` for ``open`` that fails where ``path`` is a symbolic link."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


def sync(path: Path) -> None:
    """Make a file's content, or the names in a folder, survive a power failure."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write to, which becomes ``path`` by one rename at the end; if writing fails it is removed."""
    temporary = temporary_name(path)
    file = open(temporary, "xb", opener=no_follow)  # noqa: SIM115 - what was there already is not ours to remove
    try:
        with file:
            yield file
        sync(temporary)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync(path.parent)


def clear_unfinished(folder: Path, names: str = "*", idle: float = ABANDONED) -> None:
    """Remove what processes that were killed left half written of such names in a folder: what has not been written to
    for ``idle`` seconds, or, with 0, all of it, where nobody else writes. What was to be replaced, and by then was not,
    is the only one there is: it stays. Links stay too."""
    pattern = f".{names}.{'[0-9a-f]' * TOKEN}"
    replaced = [left for left in folder.glob(f"{pattern}.retired") if _target(left).exists()]
    for left in (*folder.glob(f"{pattern}.writing"), *replaced):
        with contextlib.suppress(OSError):  # gone meanwhile
            if left.is_symlink():
                continue
            if idle and time.time() - max(path.lstat().st_mtime for path in (left, *left.rglob("*"))) < idle:
                continue
            if left.is_dir():
                shutil.rmtree(left)
            elif left.is_file():
                left.unlink()


def _target(left: Path) -> Path:
    """What ".NAME.TOKEN.retired" was to make room for: NAME."""
    return left.with_name(left.name[1:].rsplit(".", 2)[0])


def write_bytes(path: Path, content: bytes) -> None:
    """Replace ``path`` by ``content`` in one rename."""
    with new_file(path) as file:
        file.write(content)


def write_text(path: Path, text: str) -> None:
    """Replace ``path`` by ``text`` in one rename; names that are not UTF-8 keep their bytes."""
    write_bytes(path, text.encode("utf-8", errors="surrogateescape"))


def write_json(path: Path, content: Any) -> None:
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def _replace(new: Path, path: Path) -> None:
    """Rename a folder to ``path``, where an earlier one may be; if that fails, the earlier one is put back."""
    retired = temporary_name(path, "retired")
    if not path.exists():
        os.rename(new, path)
        return
    os.rename(path, retired)
    try:
        os.rename(new, path)
    except BaseException:
        os.rename(retired, path)
        raise
    if retired.is_symlink():
        retired.unlink()
    else:
        shutil.rmtree(retired, ignore_errors=True)


@contextlib.contextmanager
def new_directory(path: Path) -> Iterator[Path]:
    """A folder to fill, which becomes ``path`` by one rename once its files have reached the disk.

    If filling it fails it is removed, and an earlier ``path`` stays as it was.
    """
    temporary = temporary_name(path)
    temporary.mkdir(parents=True)
    try:
        yield temporary
        for file in temporary.iterdir():
            sync(file)
        sync(temporary)
        _replace(temporary, path)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    sync(path.parent)
