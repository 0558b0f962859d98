"""A contact sheet: each discovered category in a row, its surest images first."""

from __future__ import annotations

import numpy as np
import torch
from PIL import Image

from newfound.data.collection import Collection

COLUMNS = 16
ROWS = 100
"""Categories shown at the most."""
SIDE = 48
"""Pixels an image is shown with, at least."""
GAP = 3


def contact_sheet(collection: Collection, assignments: np.ndarray, confidence: np.ndarray) -> Image.Image:
    """A picture with a row for each category an image may have: the images [n_unlabelled] assigned to it, surest
    first."""
    _, height, width = collection.train.shape
    zoom = max(1, -(-SIDE // max(height, width)))
    cell_height, cell_width = height * zoom + GAP, width * zoom + GAP
    shown = collection.candidates[:ROWS]
    sheet = Image.new("RGB", (COLUMNS * cell_width + GAP, len(shown) * cell_height + GAP), (128, 128, 128))
    for row, category in enumerate(shown):
        members = np.flatnonzero(assignments == category)
        surest = members[np.argsort(-confidence[members], kind="stable")][:COLUMNS]
        images = collection.train.batch(torch.from_numpy(collection.n_labelled + surest)).cpu()
        for column, image in enumerate(images):
            picture = _picture(image.numpy()).resize((width * zoom, height * zoom), Image.Resampling.NEAREST)
            sheet.paste(picture, (GAP + column * cell_width, GAP + row * cell_height))
    return sheet


def _picture(image: np.ndarray) -> Image.Image:
    """A uint8 image [C, H, W] of one or three channels for people."""
    return Image.fromarray(image[0] if len(image) == 1 else image.transpose(1, 2, 0)).convert("RGB")
