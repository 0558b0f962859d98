"""DiskStore: images that do not fit into memory, read from one file as batches ask for them."""

from __future__ import annotations

import os
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from newfound.data.store import ImageStore
from newfound.errors import UserError

AHEAD = 4
"""Batches that are read while the current one is trained on."""


class _File:
    """An open file, closed with its last user."""

    def __init__(self, path: Path) -> None:
        self.path, self.number = path, os.open(path, os.O_RDONLY)

    def __del__(self) -> None:
        if hasattr(self, "number"):
            os.close(self.number)


class DiskStore(ImageStore):
    """Images [N, C, H, W] of type uint8 in a file of their bytes, one after the other.

    The file is read, not mapped: what has been read stays in the system's cache, which gives way when others need the
    memory, and does not count as this process's. Gives the same batches as a resident store of the same images.
    """

    _digests: np.ndarray

    def __init__(
        self,
        path: Path,
        shape: tuple[int, int, int],
        digests: np.ndarray,
        checks: np.ndarray,
        device: torch.device | str = "cpu",
        forget: Callable[[], None] = lambda: None,
    ) -> None:
        """``checks`` [N] are the checksums of the images, which are looked at whenever one is read; ``forget`` is
        called when one differs, before the error, so that the file is not taken again."""
        self._file = _File(path)
        self._shape, self._digests, self._device = shape, digests, torch.device(device)
        self._checks, self._forget = checks, forget
        self._rows = np.arange(len(digests))

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def shape(self) -> tuple[int, int, int]:
        return self._shape

    @property
    def device(self) -> torch.device:
        return self._device

    def _like(self, rows: np.ndarray, device: torch.device) -> DiskStore:
        other = object.__new__(DiskStore)
        other._file, other._shape, other._digests = self._file, self._shape, self._digests
        other._checks, other._forget = self._checks, self._forget
        other._rows, other._device = rows, device
        return other

    def to(self, device: torch.device) -> DiskStore:
        """The same store, with batches that arrive on ``device``; the images stay where they are."""
        return self._like(self._rows, device)

    def take(self, rows: np.ndarray) -> DiskStore:
        return self._like(self._rows[rows], self._device)

    def digests(self) -> np.ndarray:
        return self._digests[self._rows]

    def batch(self, index: Tensor) -> Tensor:
        return self._read(index.cpu().numpy()).to(self._device, non_blocking=True)

    def batches(self, indices: Iterable[Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
        """Each index (given on the CPU) with its batch; the next are read meanwhile, into pinned memory for a GPU."""
        reading: deque[tuple[Tensor, Future[Tensor]]] = deque()
        with ThreadPoolExecutor(AHEAD) as pool:
            try:
                for index in indices:
                    reading.append((index, pool.submit(self._read, index.cpu().numpy())))
                    if len(reading) > AHEAD:
                        yield self._arrive(*reading.popleft())
                while reading:
                    yield self._arrive(*reading.popleft())
            finally:
                for _, future in reading:
                    future.cancel()

    def _arrive(self, index: Tensor, images: Future[Tensor]) -> tuple[Tensor, Tensor]:
        return index.to(self._device, non_blocking=True), images.result().to(self._device, non_blocking=True)

    def _read(self, index: np.ndarray) -> Tensor:
        images = torch.empty(len(index), *self._shape, dtype=torch.uint8, pin_memory=self._device.type == "cuda")
        size = int(np.prod(self._shape))
        into = memoryview(images.numpy().reshape(-1))  # type: ignore[arg-type]
        for place, row in enumerate(self._rows[index].tolist()):
            image = into[place * size : (place + 1) * size]
            try:
                got = os.preadv(self._file.number, [image], row * size)
                reason = "is not what was written" if got == size else f"ends after {got} of {size} bytes"
            except OSError as error:
                got, reason = -1, f"cannot be read ({error.strerror})"
            if got != size or zlib.crc32(image) != self._checks[row]:
                self._forget()
                raise UserError(
                    f"the cache of decoded images is damaged: image {row} of {self._file.path} {reason}; "
                    "call again, or resume the run: it is made anew"
                )
        return images
