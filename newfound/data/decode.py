"""One image file becomes pixels of the size asked for, whatever kind of image it is."""

from __future__ import annotations

import logging
import os
import re
import stat
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from PIL import ExifTags, Image, UnidentifiedImageError

from newfound.memory import SHARE, free_memory
from newfound.memory import size as size_in_words

# What Pillow grumbles about (odd EXIF, large images) is either harmless or comes back as the reason of an Unreadable.
# Set once on import, since warnings.catch_warnings around each image is not safe in threads.
warnings.filterwarnings("ignore", module=r"PIL\b")
logging.getLogger("PIL").addHandler(logging.NullHandler())

FORMATS = ["JPEG", "PNG", "WEBP", "GIF", "TIFF", "BMP", "DIB", "AVIF", "JPEG2000", "PPM", "ICO", "PCX", "PSD", "QOI"]
"""Formats that are tried. Not all that Pillow has: opening an EPS file would start Ghostscript on it."""

HEIC = ("heic", "heix", "heim", "heis", "hevc", "hevx", "hevm", "hevs", "mif1", "msf1")
"""How files of telephones say what they are, which Pillow does not read: four letters after "ftyp" at byte 4."""

Image.init()
_FORMATS_HERE = [name for name in FORMATS if name in Image.OPEN]  # an older or smaller Pillow has no AVIF

LARGE = 2**26
"""Bytes from which on an image takes its turn to be decoded."""

BOMB = 10_000
"""Bytes that a byte of a file may become. An image of one colour becomes 1,400; a file that points to the same bytes
over and over again, anything."""

TURNS = 2**31
"""Bytes that images of more than ``LARGE`` may take together while they are decoded; one may always."""

STRIP = 2**20
"""Pixels whose levels are turned into 8 bits at a time, in whole rows: all at once took nine times the image's
memory."""


class _Turns:
    """Lets images be decoded at once as long as they take no more than ``TURNS`` together."""

    def __init__(self) -> None:
        self._taken, self._changed = 0, threading.Condition()

    @contextmanager
    def of(self, needed: int) -> Iterator[None]:
        if needed <= LARGE:
            yield
            return
        with self._changed:
            self._changed.wait_for(lambda: not self._taken or self._taken + needed <= TURNS)
            self._taken += needed
        try:
            yield
        finally:
            with self._changed:
                self._taken -= needed
                self._changed.notify_all()


_turns = _Turns()

_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


class Unreadable(Exception):
    """The file holds no image that can be used; ``reason`` says why in a few words."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def decode(path: Path | str, size: int) -> np.ndarray:
    """The image as uint8 [3, size, size] in RGB: upright, its centre square, scaled with antialiasing.

    Of several frames or pages it is the first. Transparent pixels lie on white. Grey images of 16 bits are divided by
    257, so that their whole range fits into 8 bits. Those of 32 bits, integer (I) or floating (F), have no range of
    their own: values all between 0 and 1 are multiplied by 255, values all between 0 and 255 stay, anything else is
    stretched from the image's smallest to its largest value. Colour profiles are not applied. What cannot be read
    raises Unreadable.
    """
    _require_contents(path)
    try:
        with open(path, "rb") as file, Image.open(file, formats=_FORMATS_HERE) as image:
            if image.format == "ICO":  # the picture inside may be larger than the icon says
                image = image.ico.getimage(image.size)  # type: ignore[attr-defined]
            # Lets a JPEG be unpacked at 1/2, 1/4 or 1/8; twice the size leaves the antialiasing to the resize below.
            draft = image.draft(None, (2 * size, 2 * size))
            filled = None if draft is None else (int(draft[1][2]), int(draft[1][3]))
            with _turns.of(_require_room(image, os.fstat(file.fileno()).st_size)):
                return _square(_rgb(_upright(image, filled)), size)
    except Unreadable:
        raise
    except Exception as error:  # damaged files make Pillow's readers raise nearly anything
        raise Unreadable("HEIC: convert to JPEG first" if _is_heic(path) else _reason(error)) from error


def _is_heic(path: Path | str) -> bool:
    try:
        with open(path, "rb") as file:
            beginning = file.read(12)
    except OSError:
        return False
    return beginning[4:8] == b"ftyp" and beginning[8:].decode("latin-1") in HEIC


def _require_room(image: Image.Image, written: int) -> int:
    """About how many bytes it takes to decode an image from a file of so many; Unreadable where that is too much."""
    pixels = image.width * image.height
    each = {"1": 1, "L": 1, "P": 1}.get(image.mode, 2 if image.mode.startswith("I;16") else 4)
    if pixels * each > max(LARGE, BOMB * written):
        raise Unreadable(f"decompression bomb: {written:,} bytes become {size_in_words(pixels * each)}")
    # Loaded, turned, and as colours, or on white: two more of four bytes.
    needed = pixels * (2 * each + (16 if image.has_transparency_data else 4))
    if needed > 2 * LARGE and needed > SHARE * (free := free_memory()):
        words = f"decoding takes {size_in_words(needed)}, and {size_in_words(free)} are free"
        raise Unreadable(f"too large for the memory: {words}")
    return needed


def original_side(path: Path | str) -> int | None:
    """The shorter side of the image in that file, in pixels, from its header alone; None where it has none."""
    try:
        _require_contents(path)
        with open(path, "rb") as file, Image.open(file, formats=_FORMATS_HERE) as image:
            return min(image.size)
    except Exception:  # whatever is wrong with it, ``decode`` says so
        return None


def _require_contents(path: Path | str) -> None:
    """Raise Unreadable unless there is a regular file with something in it; looks without opening, as a FIFO blocks."""
    try:
        found = os.stat(path)
    except OSError as error:
        broken = os.path.islink(path) and not isinstance(error, PermissionError)
        raise Unreadable("broken link" if broken else _reason(error)) from error
    except ValueError as error:  # a NUL in the name
        raise Unreadable("no such file") from error
    if stat.S_ISDIR(found.st_mode):
        may_enter = os.access(path, os.R_OK | os.X_OK)
        raise Unreadable("a folder, not an image" if may_enter else "a folder that may not be opened")
    if not stat.S_ISREG(found.st_mode):
        kind = "a FIFO" if stat.S_ISFIFO(found.st_mode) else "a socket or device"
        raise Unreadable(f"not a regular file ({kind})")
    if found.st_size == 0:
        raise Unreadable("empty file (0 bytes)")


def _upright(image: Image.Image, filled: tuple[int, int] | None) -> Image.Image:
    """The image, loaded, and turned as its EXIF orientation says; EXIF data that makes no sense says nothing.

    If given, only the first ``filled`` columns and rows are taken: the last ones of a JPEG unpacked at 1/8 may stand
    for fewer than eight pixels, and would shift the rest of the picture.
    """
    image.load()  # first, since loading a TIFF turns it already and then drops the tag
    try:
        turn = _UPRIGHT.get(image.getexif().get(ExifTags.Base.Orientation, 1))
    except Exception:
        turn = None
    if filled and filled != image.size:
        image = image.crop((0, 0, *filled))
    return image if turn is None else image.transpose(turn)


def _rgb(image: Image.Image) -> Image.Image:
    if image.mode in ("I", "F") or image.mode.startswith("I;16"):
        image = Image.fromarray(_eight_bits(image))
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return image.convert("RGB")


def _eight_bits(image: Image.Image) -> np.ndarray:
    """Grey levels uint8 [H, W] of an image whose levels have 16 or 32 bits; ``decode`` says how."""
    rows = max(1, STRIP // image.width)
    strips = [(0, top, image.width, min(top + rows, image.height)) for top in range(0, image.height, rows)]
    found = np.empty((image.height, image.width), np.uint8)
    # PNG and PGM have no 32-bit images: what Pillow hands over as such are images of 16 bits.
    if image.mode.startswith("I;16") or (image.mode == "I" and image.format in ("PNG", "PPM")):
        for box in strips:
            found[box[1] : box[3]] = (np.asarray(image.crop(box)).astype(np.uint32) + 128) // 257
        return found
    low, high = np.inf, -np.inf
    for box in strips:
        levels = np.asarray(image.crop(box)).astype(np.float64)
        finite = levels[np.isfinite(levels)]
        if finite.size:
            low, high = min(low, finite.min()), max(high, finite.max())
    if low > high:
        low, high = 0.0, 1.0
    if low >= 0 and high <= 255:
        low, high = 0.0, 1.0 if high <= 1 else 255.0
    for box in strips:
        levels = np.nan_to_num(np.asarray(image.crop(box)).astype(np.float64), nan=low, posinf=high, neginf=low)
        found[box[1] : box[3]] = np.round((levels - low) * (255 / ((high - low) or 1.0))).astype(np.uint8)
    return found


def _square(image: Image.Image, size: int) -> np.ndarray:
    """Pixels uint8 [3, size, size] of the centre square.

    Cut first and scaled then, which differs from the other order only in the outermost pixels: scaling a picture of
    1 x 30,000 pixels first would make it 64 x 1,920,000.
    """
    side = min(image.size)
    left, top = (image.width - side) // 2, (image.height - side) // 2
    scaled = image.resize((size, size), Image.Resampling.BILINEAR, box=(left, top, left + side, top + side))
    return np.ascontiguousarray(np.asarray(scaled).transpose(2, 0, 1))


def _reason(error: Exception) -> str:
    """Why an image could not be read, in a few words on one line."""
    text = " ".join(str(error).split())
    if isinstance(error, Image.DecompressionBombError):
        pixels = re.search(r"(\d+) pixels", text)
        return f"decompression bomb: {int(pixels[1]):,} pixels" if pixels else "decompression bomb"
    if isinstance(error, UnidentifiedImageError):
        return "not an image, or damaged at its start, or of an unknown format"
    if isinstance(error, FileNotFoundError):
        return "no such file"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    if isinstance(error, MemoryError):
        return "too large for the memory"
    if isinstance(error, EOFError) or "truncated" in text.lower():
        return "truncated image"
    return f"cannot be decoded: {text or type(error).__name__}"
