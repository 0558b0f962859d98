"""Image files as an ImageStore: decoded once, kept in a cache folder, in memory or, where too large, on disk."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import zlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from newfound.data.collection import Skipped
from newfound.data.disk import DiskStore
from newfound.data.parallel import block_within, decode_blocks
from newfound.data.store import ImageStore, check_images, digest_images
from newfound.errors import UserError
from newfound.files import clear_unfinished, new_directory
from newfound.memory import free_memory, require_memory
from newfound.progress import Reporter
from newfound.tensors import Rotten

FORMAT = 2
"""Goes up when images are decoded or kept in another way; since 2 everything has a checksum."""

RESIDENT = 2**30
"""Bytes up to which decoded images are held in memory, where a quarter of the free memory is as much."""

BLOCK = 2**27
"""Bytes of images that are decoded before they are written."""


DAMAGE = (OSError, ValueError, EOFError, KeyError, TypeError, IndexError, AttributeError, MemoryError, RecursionError)
"""What reading a damaged file of a cache may raise."""


class Decoded(NamedTuple):
    """The images that could be read, their places [n] in the list of files, and why the others could not."""

    images: ImageStore
    kept: np.ndarray
    skipped: tuple[Skipped, ...]


def default_cache() -> Path:
    """The user's cache folder for decoded images."""
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(base) if base else Path.home() / ".cache") / "newfound"
    except RuntimeError:  # a user without a home: nothing can be kept below this, and a warning says so
        return Path(os.devnull) / "newfound"


def decode_cached(
    paths: Sequence[Path | str],
    size: int,
    *,
    channels: int = 3,
    cache: Path | None,
    reporter: Reporter,
    workers: int | None = None,
    resident: int = RESIDENT,
) -> Decoded:
    """The images [channels, size, size] of these files, from the cache if it has them.

    The key is made of each file's path, inode, length and times of change: reading the files to see whether their
    content is the same would take as long as the decoding saves. Without ``cache`` everything has to fit into memory.
    """
    if cache is None:
        return _decode_to_memory(paths, size, channels, reporter, workers)
    folder = cache / f"images-{_key(paths, size, channels)}"
    resident = min(resident, free_memory() // 4)
    with contextlib.suppress(OSError):
        clear_unfinished(cache, "images-*")
    if (folder / "index.json").is_file():
        try:
            return _load(folder, paths, (channels, size, size), resident)
        except DAMAGE as error:
            reason = " ".join(str(error).split())
            reporter.warn(f"the cache {folder} is damaged ({reason}): the images are decoded again")
    try:
        cache.mkdir(parents=True, exist_ok=True)
        _decode_to(folder, paths, size, channels, reporter, workers)
        return _load(folder, paths, (channels, size, size), resident)
    except (OSError, Rotten) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or " ".join(str(error).split())
        if len(paths) * channels * size * size > resident:
            sentence = f"the decoded images do not fit into memory, and cannot be kept in {cache}"
            raise UserError(f"{sentence}: {reason}; choose another place with --cache") from None
        reporter.warn(f"the decoded images cannot be kept in {cache}: {reason}")
        return _decode_to_memory(paths, size, channels, reporter, workers)


def _key(paths: Sequence[Path | str], size: int, channels: int) -> str:
    digest = hashlib.blake2b(f"{FORMAT} {size} {channels} {len(paths)}".encode(), digest_size=16)
    here = os.getcwd()
    for path in paths:
        try:
            found = os.stat(path)
            state = f"{found.st_ino} {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns}"
        except (OSError, ValueError):
            state = "unreadable"
        digest.update(os.fsencode(os.path.join(here, path)) + f"\0{state}\0".encode())
    return digest.hexdigest()


def _decode_to_memory(
    paths: Sequence[Path | str], size: int, channels: int, reporter: Reporter, workers: int | None
) -> Decoded:
    remedy = "choose a smaller data.size, or take fewer images"
    require_memory(len(paths) * channels * size * size, f"{len(paths):,} images of {size} x {size} pixels", remedy)
    images = np.empty((len(paths), channels, size, size), dtype=np.uint8)
    all_reasons: list[str | None] = []
    n = 0
    block_size = block_within(size, channels, BLOCK)
    for block, reasons in decode_blocks(paths, size, channels, reporter, workers, block_size=block_size):
        readable = np.array([reason is None for reason in reasons])
        images[n : n + readable.sum()] = block[readable]
        n += int(readable.sum())
        all_reasons += reasons
    return Decoded(ImageStore(images[:n]), *_sort_out(paths, all_reasons))


def _decode_to(
    folder: Path, paths: Sequence[Path | str], size: int, channels: int, reporter: Reporter, workers: int | None
) -> None:
    """Fill a cache folder: pixels.bin, a digest and a checksum of each image, and which files they are of."""
    with new_directory(folder) as new:
        digests, checks, all_reasons = [np.empty((0, 16), np.uint8)], [np.empty(0, np.uint32)], []
        block_size = block_within(size, channels, BLOCK)
        with open(new / "pixels.bin", "wb") as file:
            for block, reasons in decode_blocks(paths, size, channels, reporter, workers, block_size=block_size):
                readable = [reason is None for reason in reasons]
                images = block if all(readable) else block[readable]
                if len(images):
                    file.write(images.data)
                digests.append(digest_images(images))
                checks.append(check_images(images))
                all_reasons += reasons
        kept = np.array([i for i, reason in enumerate(all_reasons) if reason is None], dtype=np.int64)
        tables: dict[str, np.ndarray] = {
            "kept": kept,
            "digests": np.concatenate(digests),
            "checks": np.concatenate(checks),
        }
        for name, table in tables.items():
            np.save(new / f"{name}.npy", table)
        skipped = {str(i): reason for i, reason in enumerate(all_reasons) if reason is not None}
        index = {"shape": [channels, size, size], "skipped": skipped}
        (new / "index.json").write_text(json.dumps(index | {"crc32": _checksum(index, tables)}))


def _checksum(index: dict[str, Any], tables: dict[str, np.ndarray]) -> int:
    found = zlib.crc32(json.dumps(index, sort_keys=True).encode())
    for name in sorted(tables):
        found = zlib.crc32(np.ascontiguousarray(tables[name]).data, found)
    return found


def _load(folder: Path, paths: Sequence[Path | str], shape: tuple[int, int, int], resident: int) -> Decoded:
    index = json.loads((folder / "index.json").read_text())
    tables = {name: np.load(folder / f"{name}.npy", allow_pickle=False) for name in ("kept", "digests", "checks")}
    if index.pop("crc32") != _checksum(index, tables) or tuple(index["shape"]) != shape:
        raise Rotten("its checksum differs")
    kept, digests, checks = tables["kept"], tables["digests"], tables["checks"]
    pixels = folder / "pixels.bin"
    expected = len(kept) * math.prod(shape)
    if pixels.stat().st_size != expected or not len(digests) == len(checks) == len(kept):
        raise Rotten(f"{pixels.name} has not the length it was written with")
    store: ImageStore
    if expected <= resident:
        images = np.fromfile(pixels, np.uint8).reshape(-1, *shape)
        if not np.array_equal(check_images(images), checks):
            raise Rotten(f"{pixels.name} is not what was written: the checksum of an image differs")
        store = ImageStore(images, digests)
    else:
        forget = partial((folder / "index.json").unlink, missing_ok=True)
        store = DiskStore(pixels, shape, digests, checks, forget=forget)
    with contextlib.suppress(OSError):  # a cache that may only be read
        os.utime(folder / "index.json")  # used now
    skipped = tuple(Skipped(str(paths[int(i)]), reason) for i, reason in index["skipped"].items())
    return Decoded(store, kept, skipped)


def _sort_out(paths: Sequence[Path | str], reasons: list[str | None]) -> tuple[np.ndarray, tuple[Skipped, ...]]:
    kept = np.array([place for place, reason in enumerate(reasons) if reason is None], dtype=np.int64)
    skipped = [Skipped(str(path), reason) for path, reason in zip(paths, reasons, strict=True) if reason is not None]
    return kept, tuple(skipped)
