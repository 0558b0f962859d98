"""ImageStore: uint8 images of one size, resident in memory or on the GPU; a batch is an index into it."""

from __future__ import annotations

import hashlib

import numpy as np
import torch
from torch import Tensor


class ImageStore:
    """Images [N, C, H, W] of type uint8, all of one size.

    A batch is an index: ``store.batch(index)`` gathers on the device the store lives on, so that after one
    ``store.to(device)`` no image crosses to the GPU again.
    """

    def __init__(self, images: Tensor | np.ndarray) -> None:
        images = torch.as_tensor(images)
        if images.dtype != torch.uint8 or images.ndim != 4:
            raise TypeError(f"expected uint8 images [N, C, H, W], got {images.dtype} {tuple(images.shape)}")
        self.images = images.contiguous()

    @classmethod
    def from_pixels(cls, pixels: np.ndarray) -> ImageStore:
        """A store of images given channels last, [N, H, W] or [N, H, W, C], as arrays usually hold them."""
        if pixels.ndim == 3:
            pixels = pixels[..., None]
        return cls(np.ascontiguousarray(pixels.transpose(0, 3, 1, 2)))

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
        return ImageStore(self.images.to(device))

    def batch(self, index: Tensor) -> Tensor:
        """Images [len(index), C, H, W], uint8, on the store's device."""
        return self.images[index]

    def channel_statistics(self) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of each channel, [C] each, in units of the range 0 to 1.

        Counted from histograms, so the result is exact whatever the number of images and of threads.
        """
        levels = torch.arange(256, dtype=torch.float64) / 255
        means, deviations = [], []
        for channel in range(self.images.shape[1]):
            count = torch.bincount(self.images[:, channel].reshape(-1).cpu(), minlength=256).double()
            share = count / count.sum()
            mean = (share * levels).sum()
            means.append(mean)
            deviations.append((share * (levels - mean) ** 2).sum().sqrt())
        return torch.stack(means).float(), torch.stack(deviations).float()

    def fingerprint(self) -> str:
        """A digest of shape and pixels: equal for equal images in equal order."""
        digest = hashlib.blake2b(repr(tuple(self.images.shape)).encode(), digest_size=16)
        digest.update(self.images.cpu().numpy().data)
        return digest.hexdigest()
