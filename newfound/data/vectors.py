"""VectorStore: features in the place of images, for what learns from them alone."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from newfound.data.store import ImageStore


class VectorStore(ImageStore):
    """Features [N, D], float32, as images [N, D, 1, 1] of D channels and one pixel: what takes images takes them."""

    def __init__(self, features: Tensor | np.ndarray, digests: np.ndarray | None = None) -> None:
        features = torch.as_tensor(features)
        if features.dtype != torch.float32 or features.ndim not in (2, 4):
            raise TypeError(f"expected float32 features [N, D], got {features.dtype} {tuple(features.shape)}")
        self.images, self._digests = features.reshape(len(features), -1, 1, 1).contiguous(), digests
