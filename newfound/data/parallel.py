"""Many image files become pixels, several at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from newfound.data.decode import Unreadable, decode
from newfound.progress import Reporter

MOST_WORKERS = 16
FILES_A_TURN = 8
"""Files a worker takes at once: few enough for a smooth progress bar, enough for a million files to be no burden."""
BLOCK = 4096
"""The most files whose images are in memory together."""

GREY = np.array([0.299, 0.587, 0.114], dtype=np.float32)


def block_within(size: int, channels: int, most: int = 2**26) -> int:
    """How many files' images are in memory together if they may take ``most`` bytes; one at the least."""
    return max(1, min(BLOCK, most // (channels * size * size)))


def decode_blocks(
    paths: Sequence[Path | str],
    size: int,
    channels: int,
    reporter: Reporter,
    workers: int | None = None,
    *,
    block_size: int = BLOCK,
) -> Iterator[tuple[np.ndarray, list[str | None]]]:
    """Images uint8 [n, channels, size, size] of the next n files, in the order given whatever the number of workers;
    and for each of the n files why it could not be read, None where its image is in its place.

    ``channels`` is 3, or 1 for grey levels.
    """
    pool = ThreadPoolExecutor(workers or min(_processors(), MOST_WORKERS))
    try:
        with reporter.task("reading images", len(paths)) as task:
            for first in range(0, len(paths), block_size):
                block = paths[first : first + block_size]
                images = np.zeros((len(block), channels, size, size), dtype=np.uint8)

                turns = [slice(i, i + FILES_A_TURN) for i in range(0, len(block), FILES_A_TURN)]
                reasons: list[str | None] = []
                for some in pool.map(_turn, [images[t] for t in turns], [block[t] for t in turns]):
                    reasons += some
                    task.advance(len(some))
                yield images, reasons
                del images  # before the next ones take their memory
    finally:
        pool.shutdown(cancel_futures=True)  # or Ctrl-C would wait for all the files


def _turn(images: np.ndarray, paths: Sequence[Path | str]) -> list[str | None]:
    return [_place(image, path) for image, path in zip(images, paths, strict=True)]


def _place(image: np.ndarray, path: Path | str) -> str | None:
    """Put the file's pixels into ``image`` [channels, size, size]; gives the reason where that is not possible."""
    try:
        pixels = decode(path, image.shape[-1])
    except Unreadable as error:
        return error.reason
    image[:] = pixels if len(image) == 3 else np.round(np.tensordot(GREY, pixels, axes=1))
    return None


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
