"""A drawing of shapes and text that becomes a PNG picture, and whose digest says what was drawn."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw, ImageFont
from PIL.PngImagePlugin import PngImageFile, PngInfo

SCALE, FINER = 2, 3
"""Pixels of the picture a unit of the drawing, and how many times finer shapes are drawn before they are scaled."""
DIGEST = "drawing"
"""The PNG's text chunk that holds the digest: pixels of letters change with the version of a font library."""
MOST_LETTERS = 200
WHITE, BLACK, GREY, PALE = "#ffffff", "#1f2933", "#6b7680", "#d9dee3"
COLOURS = (
    "#0072b2", "#e69f00", "#009e73", "#cc3311", "#aa4499", "#56b4e9", "#7a5c2e", "#f2a6c2", "#5b6770", "#99b000",
)  # fmt: skip
"""Told apart on white, the first five by people with red-green weakness, too."""


class Drawing:
    """Shapes and text on white, in units of which a picture has ``width`` x ``height``; the origin is upper left.

    Text is drawn over all shapes.
    """

    def __init__(self, width: float, height: float) -> None:
        self.width, self.height = width, height
        self.drawn: list[tuple[Any, ...]] = []

    def line(self, points: Sequence[tuple[float, float]], colour: str = PALE, width: float = 1) -> None:
        self.drawn.append(("line", [_rounded(*point) for point in points], colour, width))

    def box(self, left: float, top: float, right: float, bottom: float, fill: str, outline: str = "") -> None:
        self.drawn.append(("box", _rounded(left, top, right, bottom), fill, outline))

    def disc(self, x: float, y: float, radius: float, fill: str, outline: str = "") -> None:
        self.drawn.append(("disc", _rounded(x, y, radius), fill, outline))

    def text(
        self,
        x: float,
        y: float,
        text: str,
        size: float = 13,
        colour: str = BLACK,
        anchor: str = "lm",
        turned: bool = False,
    ) -> None:
        """``anchor`` is Pillow's: l, m or r, then a (top), m or s (baseline). ``turned`` text reads upwards, and its
        end is at (x, y)."""
        self.drawn.append(("text", _rounded(x, y), text, size, colour, anchor, turned))

    def digest(self) -> str:
        """What was drawn, as a number that is the same on every machine."""
        return hashlib.sha256(json.dumps([self.width, self.height, self.drawn]).encode()).hexdigest()

    def png(self) -> bytes:
        """The picture as the content of a file."""
        picture = self._shapes()
        for kind, place, *more in self.drawn:
            if kind == "text":
                _write(picture, place, *more)
        info, file = PngInfo(), io.BytesIO()
        info.add_text(DIGEST, self.digest())
        picture.quantize(128, dither=Image.Dither.NONE).save(file, "PNG", pnginfo=info, optimize=True)
        return file.getvalue()

    def _shapes(self) -> Image.Image:
        zoom = SCALE * FINER
        size = round(self.width * zoom), round(self.height * zoom)
        picture = Image.new("RGB", size, WHITE)
        pen = ImageDraw.Draw(picture)
        for kind, place, *more in self.drawn:
            if kind == "line":
                colour, width = more
                pen.line([(x * zoom, y * zoom) for x, y in place], colour, round(width * zoom), joint="curve")
            elif kind == "box":
                fill, outline = more
                pen.rectangle([value * zoom for value in place], fill, outline or None, zoom)
            elif kind == "disc":
                (x, y, radius), (fill, outline) = place, more
                ends = [(x - radius) * zoom, (y - radius) * zoom, (x + radius) * zoom, (y + radius) * zoom]
                pen.ellipse(ends, fill, outline or None, round(1.6 * zoom))
        return picture.resize((size[0] // FINER, size[1] // FINER), Image.Resampling.BOX)


def text_width(text: str, size: float) -> float:
    """About how wide a text is: an estimate that no font changes, so that layouts stay as they are."""
    narrow = sum(letter in "iljtfr.,:;'|()[] 1" for letter in text)
    return size * (0.56 * len(text) - 0.24 * narrow + 0.12 * sum(letter.isupper() for letter in text))


def shortened(text: str, width: float, size: float) -> str:
    """The text, or its beginning where it is wider than that."""
    if len(text) < MOST_LETTERS and text_width(text, size) <= width:
        return text
    text = text[:MOST_LETTERS]
    while len(text) > 1 and text_width(text + "…", size) > width:
        text = text[:-1]
    return text.rstrip() + "…"


def digest_of(path: Path) -> str:
    """The digest of the drawing that a picture was made from; "" where it says none."""
    with Image.open(path) as picture:
        return picture.text.get(DIGEST, "") if isinstance(picture, PngImageFile) else ""


def _rounded(*values: float) -> list[float]:
    return [round(float(value), 1) for value in values]


def _write(
    picture: Image.Image, place: list[float], text: str, size: float, colour: str, anchor: str, turned: bool
) -> None:
    font = ImageFont.load_default(size * SCALE)
    x, y = (value * SCALE for value in place)
    if not turned:
        ImageDraw.Draw(picture).text((x, y), text, colour, font, anchor)
        return
    left, top, right, bottom = font.getbbox(text, anchor="ls")
    letters = Image.new("L", (int(right - left) + 2, int(bottom - top) + 2), 0)
    ImageDraw.Draw(letters).text((-left, -top), text, 255, font, "ls")
    letters = letters.rotate(90, expand=True)
    picture.paste(Image.new("RGB", letters.size, colour), (round(x - letters.width / 2), round(y)), letters)
