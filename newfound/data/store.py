"""ImageStore: uint8 images of one size, resident in memory or on the GPU; a batch is an index into it."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Iterator

import numpy as np
import torch
from torch import Tensor


class ImageStore:
    """Images [N, C, H, W] of type uint8, all of one size.

    A batch is an index: ``store.batch(index)`` gathers on the device the store lives on, so that after one
    ``store.to(device)`` no image crosses to the GPU again.
    """

    def __init__(self, images: Tensor | np.ndarray, digests: np.ndarray | None = None) -> None:
        """``digests`` are those of the images, uint8 [N, 16], where they are known already."""
        images = torch.as_tensor(images)
        if images.dtype != torch.uint8 or images.ndim != 4:
            raise TypeError(f"expected uint8 images [N, C, H, W], got {images.dtype} {tuple(images.shape)}")
        self.images, self._digests = images.contiguous(), digests

    @classmethod
    def from_pixels(cls, pixels: np.ndarray) -> ImageStore:
        """A store of a copy of images given channels last, [N, H, W] or [N, H, W, C], as arrays usually hold them."""
        if pixels.ndim == 3:
            pixels = pixels[..., None]
        return cls(np.array(pixels.transpose(0, 3, 1, 2), order="C", copy=True))

    def __len__(self) -> int:
        return len(self.images)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height, width of every image."""
        _, c, h, w = self.images.shape
        return c, h, w

    @property
    def device(self) -> torch.device:
        return self.images.device

    def to(self, device: torch.device) -> ImageStore:
        return type(self)(self.images.to(device), self._digests)

    def take(self, rows: np.ndarray) -> ImageStore:
        """A store of these rows, in this order."""
        digests = None if self._digests is None else self._digests[rows]
        return type(self)(self.images[torch.from_numpy(rows)], digests)

    def batch(self, index: Tensor) -> Tensor:
        """Images [len(index), C, H, W], uint8, on the store's device."""
        return self.images[index]

    def batches(self, indices: Iterable[Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
        """Each index (given on the CPU) with its batch, both on the store's device, one after the other."""
        if isinstance(indices, Tensor):
            indices = indices.to(self.device)  # at once: a copy of each would keep the host busy
        for index in indices:
            index = index.to(self.device, non_blocking=True)
            yield index, self.batch(index)

    def chunks(self, size: int = 4096) -> Iterator[Tensor]:
        """All images in order, ``size`` at a time."""
        for rows in torch.arange(len(self), device=self.device).split(size):
            yield self.batch(rows)

    def channel_statistics(self, most: int = 65536) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of each channel, [C] each, in units of the range 0 to 1.

        Counted from histograms, so the result is exact whatever the number of threads; of more than ``most`` images,
        that many are looked at, evenly spread.
        """
        counts = torch.zeros(self.shape[0], 256, dtype=torch.int64)
        step = max(1, -(-len(self) // most))
        for rows in torch.arange(0, len(self), step, device=self.device).split(4096):
            images = self.batch(rows)
            for channel, values in enumerate(images.cpu().unbind(1)):
                counts[channel] += torch.bincount(values.reshape(-1), minlength=256)
        levels = torch.arange(256, dtype=torch.float64) / 255
        share = counts.double() / counts.sum(1, keepdim=True)
        mean = (share * levels).sum(1)
        deviation = (share * (levels - mean[:, None]).square()).sum(1).sqrt()
        return mean.float(), deviation.float()

    def digests(self) -> np.ndarray:
        """A digest of each image's pixels, uint8 [N, 16]; computed once, for what is taken from the store later too."""
        if self._digests is None:
            found = [digest_images(chunk.cpu().numpy()) for chunk in self.chunks()]
            self._digests = np.concatenate([np.empty((0, 16), np.uint8), *found])
        return self._digests

    def fingerprint(self) -> str:
        """A digest of shape and pixels: equal for equal images in equal order, wherever they are kept."""
        digest = hashlib.blake2b(repr((len(self), *self.shape)).encode(), digest_size=16)
        digest.update(self.digests().tobytes())
        return digest.hexdigest()


def check_images(images: np.ndarray) -> np.ndarray:
    """A checksum of each of the images [N, …], uint32 [N]: five times as fast as a digest, and enough to see rot."""
    return np.array([zlib.crc32(image.data) for image in np.ascontiguousarray(images)], np.uint32)


def digest_images(images: np.ndarray) -> np.ndarray:
    """A digest of each of the images [N, …], uint8 [N, 16]."""
    digests = b"".join(hashlib.blake2b(image.data, digest_size=16).digest() for image in np.ascontiguousarray(images))
    return np.frombuffer(digests, np.uint8).reshape(-1, 16)
