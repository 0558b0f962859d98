"""A contact sheet: each discovered category in a row, its surest images first."""

from __future__ import annotations

import numpy as np
import torch
from PIL import Image

from newfound.data.collection import Collection
from newfound.report.typical import told_of

COLUMNS = 12
ROWS = 100
"""Categories shown at the most."""
SMALLEST, LARGEST = 48, 64
"""Pixels that an image is shown with: small images are enlarged by a whole number, large ones are reduced."""
GAP = 3
COLOURS = 256
"""Of the palette, with which a sheet of photographs takes a third of the bytes."""


def contact_sheet(collection: Collection, assignments: np.ndarray, confidence: np.ndarray) -> Image.Image:
    """A picture with a row for each novel category, and then for each known one that images were assigned to: these
    images [n_unlabelled], surest first."""
    width, height = _shown_size(*collection.train.shape[1:])
    cell_height, cell_width = height + GAP, width + GAP
    told = told_of(collection, assignments)
    shown = np.roll(told, -int((told < len(collection.classes)).sum()))[:ROWS]  # the novel ones first
    sheet = Image.new("RGB", (COLUMNS * cell_width + GAP, len(shown) * cell_height + GAP), (128, 128, 128))
    for row, category in enumerate(shown):
        members = np.flatnonzero(assignments == category)
        surest = members[np.argsort(-confidence[members], kind="stable")][:COLUMNS]
        images = collection.train.batch(torch.from_numpy(collection.n_labelled + surest)).cpu()
        for column, image in enumerate(images):
            picture = _picture(image.numpy(), (width, height))
            sheet.paste(picture, (GAP + column * cell_width, GAP + row * cell_height))
    return sheet.quantize(COLOURS, dither=Image.Dither.NONE)


def _shown_size(height: int, width: int) -> tuple[int, int]:
    """Width and height of a picture on the sheet."""
    longer = max(height, width)
    if longer > LARGEST:
        return max(1, round(width * LARGEST / longer)), max(1, round(height * LARGEST / longer))
    zoom = -(-SMALLEST // longer)
    return width * zoom, height * zoom


def _picture(image: np.ndarray, size: tuple[int, int]) -> Image.Image:
    """A uint8 image [C, H, W] of one or three channels for people."""
    picture = Image.fromarray(image[0] if len(image) == 1 else image.transpose(1, 2, 0)).convert("RGB")
    smaller = size[0] < picture.width
    return picture.resize(size, Image.Resampling.LANCZOS if smaller else Image.Resampling.NEAREST)
