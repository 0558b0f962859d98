"""Pictures of a run: its features at several epochs, by t-SNE, and which true categories the found ones are."""

from __future__ import annotations

import colorsys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from newfound.report.drawing import BLACK, COLOURS, GREY, PALE, WHITE, Drawing, shortened, text_width
from newfound.report.matrix import Pairs, meanings

SIDE, ACROSS, GAP, MARGIN = 340.0, 3, 24.0, 16.0
"""Units of a panel, panels in a row, and what is between and around them."""
SIZE, SMALL = 13.0, 11.5
MOST_NAMED = 20
"""Categories whose colours a legend names."""
MOST_CATEGORIES = 60
"""In a matrix; of more no line could be told from the next."""
LARGEST, NUMBERED = 56.0, 24.0
"""Units of a matrix's cell at the most, and from which on it says its per cent."""
NAME = 130.0
"""Units that the name of a category may take."""
FOUND = "found category, called like the true one it is matched with"


@dataclass(frozen=True)
class Map:
    """Positions [n, 2] of images at one epoch, and the category of each."""

    title: str
    positions: np.ndarray
    categories: Sequence[str]


def draw_maps(title: str, maps: Sequence[Map]) -> Drawing:
    """A panel for each map, in which points of one category have one colour."""
    names = sorted({name for one in maps for name in one.categories})
    colour = dict(zip(names, _colours(len(names)), strict=True))
    columns = min(ACROSS, len(maps))
    width = max(2 * MARGIN + columns * SIDE + (columns - 1) * GAP, 2 * MARGIN + text_width(title, 16))
    legend = _legend(names, width - 2 * MARGIN)
    top = 50 + 22 * len(legend)
    lines = -(-len(maps) // columns)
    drawing = Drawing(width, top + lines * (SIDE + 28 + GAP))
    drawing.text(MARGIN, 20, title, 16)
    for line, entries in enumerate(legend):
        for x, name in entries:
            drawing.disc(MARGIN + x + 5, 48 + 22 * line, 5, colour.get(name, WHITE))
            drawing.text(MARGIN + x + 16, 48 + 22 * line, shortened(name, NAME, SIZE), SIZE)
    for place, one in enumerate(maps):
        left, y = MARGIN + (place % columns) * (SIDE + GAP), top + (place // columns) * (SIDE + 28 + GAP)
        drawing.text(left, y, one.title, 14)
        drawing.box(left, y + 14, left + SIDE, y + 14 + SIDE, WHITE, PALE)
        for (a, b), name in zip(within_unit(one.positions), one.categories, strict=True):
            drawing.disc(left + 8 + (SIDE - 16) * a, y + 22 + (SIDE - 16) * b, 2.2, colour[name])
    return drawing


def _legend(names: Sequence[str], width: float) -> list[list[tuple[float, str]]]:
    """Lines of places and names; without names where there are too many."""
    if len(names) > MOST_NAMED:
        return []
    lines: list[list[tuple[float, str]]] = [[]]
    x = 0.0
    for name in names:
        wide = 40 + text_width(shortened(name, NAME, SIZE), SIZE)
        if lines[-1] and x + wide > width:
            lines.append([])
            x = 0.0
        lines[-1].append((x, name))
        x += wide
    return lines


def _colours(n: int) -> list[str]:
    """As many colours: those that are told apart well, or, of more, hues one golden angle from the next."""
    if n <= len(COLOURS):
        return list(COLOURS[:n])
    parts = [colorsys.hls_to_rgb(0.618 * i % 1, (0.35, 0.5, 0.65)[i % 3], 0.7) for i in range(n)]
    return ["#" + "".join(f"{round(255 * part):02x}" for part in rgb) for rgb in parts]


def within_unit(positions: np.ndarray) -> np.ndarray:
    """The positions within 0 to 1, both axes by one scale."""
    low, high = positions.min(0), positions.max(0)
    return (positions - (low + high) / 2) / max(float((high - low).max()), 1e-12) + 0.5


def draw_matrices(title: str, parts: Mapping[str, Pairs]) -> Drawing:
    """A matrix for each of several assignments of the same images: true categories down, found ones across, the share
    of a true category's images in each cell. Across, a found category is called like the true one that it stands for
    under the best one-to-one matching."""
    truth = sorted({true for pairs in parts.values() for _, true, _ in pairs})
    shown = {name: _columns(pairs, truth) for name, pairs in parts.items()}
    most = max(len(truth), *(len(columns) for columns in shown.values()))
    cell = min(LARGEST, 420.0 / most)
    named = cell >= 10
    room = min(NAME, max(text_width(name, SIZE) for name in truth)) + 12 if named else 12.0
    apart, high = cell * most + 1.5 * GAP, cell * len(truth)
    columns = [column for several in shown.values() for _, column in several]
    turned = named and any(text_width(column, SIZE) > cell - 4 for column in columns)
    below = 28.0 if named and not turned else 12.0
    if turned:
        below += min(NAME, max(text_width(column, SIZE) for column in columns))
    beside = MARGIN + 20 + room
    width = max(beside + len(parts) * apart, 2 * MARGIN + text_width(title, 16), beside + text_width(FOUND, SIZE))
    drawing = Drawing(width, 76 + high + below + 38)
    drawing.text(MARGIN, 20, title, 16)
    drawing.text(
        MARGIN, 76 + high / 2 - text_width("true category", SIZE) / 2, "true category", SIZE, GREY, turned=True
    )
    for place, (name, pairs) in enumerate(parts.items()):
        left = beside + place * apart
        drawing.text(left, 56, f"{name}: {_right(pairs):.1%} right".replace("%", " %"), 14)
        _draw_matrix(drawing, left, 76, cell, truth, shown[name], pairs, place == 0 and named)
        for j, (_, column) in enumerate(shown[name] if named else ()):
            x, y = left + (j + 0.5) * cell, 76 + high + 8
            if turned:
                drawing.text(x, y, shortened(column, NAME, SIZE), SIZE, turned=True)
            else:
                drawing.text(x, y + SIZE / 2, column, SIZE, BLACK, "mm")
    drawing.text(beside, 76 + high + below + 18, FOUND, SIZE, GREY)
    return drawing


def _columns(pairs: Pairs, truth: Sequence[str]) -> list[tuple[str, str]]:
    """Found categories, with the true one that each stands for or their own name, in the order of the true ones."""
    meaning = meanings(pairs)
    found = sorted({one for one, _, _ in pairs})
    matched = sorted((one for one in found if one in meaning), key=lambda one: truth.index(meaning[one]))
    return [(one, meaning[one]) for one in matched] + [(one, one) for one in found if one not in meaning]


def _right(pairs: Pairs) -> float:
    meaning = meanings(pairs)
    return sum(n for found, true, n in pairs if meaning.get(found) == true) / max(1, sum(n for *_, n in pairs))


def _draw_matrix(
    drawing: Drawing, left: float, top: float, cell: float, truth: Sequence[str], columns: Sequence[tuple[str, str]],
    pairs: Pairs, rows_named: bool,
) -> None:  # fmt: skip
    """The cells, and the names of the rows."""
    images = {(found, true): n for found, true, n in pairs}
    of = {name: sum(n for _, true, n in pairs if true == name) for name in truth}
    for i, true in enumerate(truth):
        y = top + i * cell
        if rows_named:
            drawing.text(left - 8, y + cell / 2, shortened(true, NAME, SIZE), SIZE, BLACK, "rm")
        for j, (found, _) in enumerate(columns):
            share, x = images.get((found, true), 0) / max(1, of[true]), left + j * cell
            drawing.box(x, y, x + cell, y + cell, _shade(share), PALE)
            if cell >= NUMBERED and share >= 0.005:
                drawing.text(x + cell / 2, y + cell / 2, f"{100 * share:.0f}", SMALL, _on(share), "mm")


def _shade(share: float) -> str:
    """From white to teal; by the root of the share, so that few images show."""
    parts = [round(255 + (end - 255) * share**0.5) for end in (0x00, 0x79, 0x6B)]
    return "#" + "".join(f"{part:02x}" for part in parts)


def _on(share: float) -> str:
    return WHITE if share > 0.35 else BLACK
