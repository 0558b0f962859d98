"""Thumbnails: many small pictures in a few JPEG sheets that together stay below a number of bytes."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image

from newfound.data.store import ImageStore

SIDES = (96, 80, 64, 48, 32, 16)
"""Pixels of a thumbnail: the first of them with which all fit into the budget; never more than the images have."""
BLOCK = 8
"""What JPEG works in: cells of whole blocks, with colours as fine as greys, do not bleed into each other."""
SHEET = 1536
"""Pixels of a sheet at the most; a phone decodes one at a time."""
QUALITY = 78
TRIED = 256


@dataclass(frozen=True)
class Sheets:
    """Pictures of ``side`` pixels at the upper left of cells of ``cell`` pixels, row by row, ``columns`` a row and as
    many rows a sheet."""

    side: int
    cell: int
    columns: int
    jpegs: tuple[bytes, ...]


def is_picture(images: ImageStore) -> bool:
    """Whether people can look at these: grey or colour, and more than a few pixels (not vectors laid out as such)."""
    channels, height, width = images.shape
    return channels in (1, 3) and min(height, width) >= 4


def make_sheets(images: ImageStore, rows: np.ndarray, budget: int, largest: int = SIDES[0]) -> Sheets:
    """Thumbnails of these rows of a store, in this order, together at most ``budget`` bytes."""
    native = max(images.shape[1:])
    sides = [side for side in SIDES if side <= min(native, largest)] or [native]
    if native <= largest and native not in sides:
        sides.insert(0, native)
    few = rows[:: max(1, len(rows) // TRIED)]
    for side in sides:
        if side != sides[-1] and _total(_encode(images, few, side)) * len(rows) > budget * len(few):
            continue
        sheets = _encode(images, rows, side)
        if _total(sheets) <= budget:
            return sheets
    return sheets


def _total(sheets: Sheets) -> int:
    return sum(map(len, sheets.jpegs))


def _encode(images: ImageStore, rows: np.ndarray, side: int) -> Sheets:
    cell = -(-side // BLOCK) * BLOCK
    columns = SHEET // cell
    full = columns * columns
    jpegs = tuple(_sheet(images, rows[i : i + full], side, cell, columns) for i in range(0, len(rows), full))
    return Sheets(side, cell, columns, jpegs)


def _sheet(images: ImageStore, rows: np.ndarray, side: int, cell: int, columns: int) -> bytes:
    channels = images.shape[0]
    high, wide = -(-len(rows) // columns) * cell, min(len(rows), columns) * cell
    sheet = np.zeros((high, wide, channels), np.uint8)
    for place, pixels in enumerate(_pixels(images, rows)):
        y, x = divmod(place, columns)
        picture = _scaled(pixels, side)
        padding = ((0, cell - side), (0, cell - side), (0, 0))
        sheet[y * cell : (y + 1) * cell, x * cell : (x + 1) * cell] = np.pad(picture, padding, mode="edge")
    file = io.BytesIO()
    whole = Image.fromarray(sheet[:, :, 0] if channels == 1 else sheet)
    whole.save(file, "JPEG", quality=QUALITY if side > 32 else 88, subsampling=0)
    return file.getvalue()


def _pixels(images: ImageStore, rows: np.ndarray) -> Iterator[np.ndarray]:
    """Each of these images, uint8 [C, H, W], a few hundred in memory at a time."""
    for some in torch.from_numpy(rows).split(256):
        yield from images.batch(some.to(images.device)).cpu().numpy()


def _scaled(pixels: np.ndarray, side: int) -> np.ndarray:
    """An image uint8 [C, H, W] as [side, side, C]."""
    image = Image.fromarray(pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0))
    if image.size != (side, side):
        image = image.resize((side, side), Image.Resampling.LANCZOS)
    return np.asarray(image).reshape(side, side, len(pixels))
