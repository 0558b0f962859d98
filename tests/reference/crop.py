"""One image at a time, with plain slices: what PadCropFlip does to a batch."""

import numpy as np


def pad_crop_flip(image: np.ndarray, pad: int, fill: int, top: int, left: int, mirror: bool) -> np.ndarray:
    """The view, float in 0..1 [C, H, W], of a uint8 image [C, H, W]."""
    _, height, width = image.shape
    padded = np.pad(image, ((0, 0), (pad, pad), (pad, pad)), constant_values=fill)
    view = padded[:, top : top + height, left : left + width]
    if mirror:
        view = view[:, :, ::-1]
    return view.astype(np.float32) / 255
