"""RememberedStore: images of which some are gone, and only the digests of their pixels are left."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from newfound.data.store import ImageStore
from newfound.errors import UserError


class RememberedStore(ImageStore):
    """Images [N, C, H, W], uint8. Row ``place[i]`` of ``there`` is image i; where that is -1 the image is gone, and
    whoever asks for its pixels is told so. What asks for ``digests`` alone has no need to know."""

    _digests: np.ndarray

    def __init__(self, there: ImageStore, place: np.ndarray, digests: np.ndarray) -> None:
        self.there, self._place, self._digests = there, place, digests

    @classmethod
    def beside(cls, there: ImageStore, gone: np.ndarray) -> RememberedStore:
        """The images that are there, and after them those with the digests ``gone`` [n, 16], which are not."""
        place = np.concatenate([np.arange(len(there)), np.full(len(gone), -1)])
        return cls(there, place, np.concatenate([there.digests(), gone]))

    def __len__(self) -> int:
        return len(self._place)

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.there.shape

    @property
    def device(self) -> torch.device:
        return self.there.device

    def to(self, device: torch.device) -> RememberedStore:
        return RememberedStore(self.there.to(device), self._place, self._digests)

    def take(self, rows: np.ndarray) -> RememberedStore:
        return RememberedStore(self.there, self._place[rows], self._digests[rows])

    def batch(self, index: Tensor) -> Tensor:
        place = self._place[index.cpu().numpy()]
        if (place < 0).any():
            raise UserError("images of an earlier run are gone, and their pixels are needed: put them back")
        return self.there.batch(torch.from_numpy(place).to(self.device))

    def digests(self) -> np.ndarray:
        return self._digests
