"""Image files as an ImageStore: decoded once, kept in a cache folder, in memory or, where too large, on disk."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from newfound.data.collection import Skipped
from newfound.data.disk import DiskStore
from newfound.data.parallel import decode_blocks
from newfound.data.store import ImageStore, digest_images
from newfound.errors import UserError
from newfound.files import clear_unfinished, new_directory
from newfound.progress import Reporter

FORMAT = 1
"""Goes up when images are decoded or kept in another way."""

RESIDENT = 2**30
"""Bytes up to which decoded images are held in memory."""


class Decoded(NamedTuple):
    """The images that could be read, their places [n] in the list of files, and why the others could not."""

    images: ImageStore
    kept: np.ndarray
    skipped: tuple[Skipped, ...]


def default_cache() -> Path:
    """The user's cache folder for decoded images."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "newfound"


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
    if not (folder / "index.json").is_file():
        try:
            cache.mkdir(parents=True, exist_ok=True)
            clear_unfinished(cache, "images-*")
            _decode_to(folder, paths, size, channels, reporter, workers)
        except OSError as error:
            if len(paths) * channels * size * size > resident:
                reason = f"the decoded images do not fit into memory, and cannot be written to {cache}"
                raise UserError(f"{reason}: {error.strerror}; choose another place with --cache") from None
            reporter.warn(f"the decoded images cannot be kept in {cache}: {error.strerror}")
            return _decode_to_memory(paths, size, channels, reporter, workers)
    return _load(folder, paths, resident)


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
    images = np.empty((len(paths), channels, size, size), dtype=np.uint8)
    all_reasons: list[str | None] = []
    n = 0
    for block, reasons in decode_blocks(paths, size, channels, reporter, workers):
        readable = np.array([reason is None for reason in reasons])
        images[n : n + readable.sum()] = block[readable]
        n += int(readable.sum())
        all_reasons += reasons
    return Decoded(ImageStore(images[:n]), *_sort_out(paths, all_reasons))


def _decode_to(
    folder: Path, paths: Sequence[Path | str], size: int, channels: int, reporter: Reporter, workers: int | None
) -> None:
    """Fill a cache folder: pixels.bin, a digest of each image, and which files they are of."""
    with new_directory(folder) as new:
        digests, all_reasons = [np.empty((0, 16), np.uint8)], []
        with open(new / "pixels.bin", "wb") as file:
            for block, reasons in decode_blocks(paths, size, channels, reporter, workers):
                images = block[[reason is None for reason in reasons]]
                file.write(images.tobytes())
                digests.append(digest_images(images))
                all_reasons += reasons
        np.save(new / "digests.npy", np.concatenate(digests))
        kept = [i for i, reason in enumerate(all_reasons) if reason is None]
        np.save(new / "kept.npy", np.array(kept, dtype=np.int64))
        reasons_by_place = {i: reason for i, reason in enumerate(all_reasons) if reason is not None}
        (new / "index.json").write_text(json.dumps({"shape": [channels, size, size], "skipped": reasons_by_place}))


def _load(folder: Path, paths: Sequence[Path | str], resident: int) -> Decoded:
    index = json.loads((folder / "index.json").read_text())
    channels, height, width = index["shape"]
    kept = np.load(folder / "kept.npy", allow_pickle=False)
    digests = np.load(folder / "digests.npy", allow_pickle=False)
    pixels = folder / "pixels.bin"
    expected = len(kept) * channels * height * width
    if pixels.stat().st_size != expected or len(digests) != len(kept):
        raise UserError(f"the cache {folder} is damaged: remove it and call again")
    store: ImageStore
    if expected <= resident:
        store = ImageStore(np.fromfile(pixels, np.uint8).reshape(-1, channels, height, width), digests)
    else:
        store = DiskStore(pixels, (channels, height, width), digests)
    skipped = tuple(Skipped(str(paths[int(i)]), reason) for i, reason in index["skipped"].items())
    return Decoded(store, kept, skipped)


def _sort_out(paths: Sequence[Path | str], reasons: list[str | None]) -> tuple[np.ndarray, tuple[Skipped, ...]]:
    kept = np.array([place for place, reason in enumerate(reasons) if reason is None], dtype=np.int64)
    skipped = [Skipped(str(path), reason) for path, reason in zip(paths, reasons, strict=True) if reason is not None]
    return kept, tuple(skipped)
