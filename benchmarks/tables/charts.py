"""The pictures of docs/results.md, from rows.yaml and the records alone: `make results` writes them."""

from __future__ import annotations

import csv
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rows import Job, Records, Row, Tables, accuracies, minutes_of, of_row

from newfound.report.drawing import BLACK, GREY, PALE, WHITE, Drawing, text_width
from newfound.report.pictures import Map, draw_maps, draw_matrices

OURS = "#00796b"
"""The colour of our own figures; published ones are hollow."""
SIZE, SMALL = 13, 12
"""Of letters."""
LEARNERS = "Learners of instances"
SHORT = {
    " and k-means": "",
    " with self-supervision": " w/ S.S.",
    " with incremental learning": " w/ I.L.",
    ", 500 epochs of discovery": ", 500 ep.",
    " (ours), over EfficientNet-Lite0 as it is": " (pretrained)",
    ", over EfficientNet-Lite0 as it is": " (pretrained)",
}


@dataclass(frozen=True)
class Mark:
    """A system on a data set: what it reached here and what was published, in per cent, and minutes on a GPU alone."""

    label: str
    ours: tuple[float, ...] = ()
    published: float | None = None
    minutes: float | None = None


def marks(name: str, tables: Tables, records: Records) -> list[Mark]:
    """Every system that has a figure for the data set, and of the learners those that were timed."""
    systems, *_ = tables.groups
    found = []
    for group in (systems, LEARNERS):
        for row in tables.groups.get(group, ()):
            mark = _mark(row, of_row(row, tables, records)) if row.dataset == name and not row.of else None
            if mark and (group == systems or mark.minutes):
                found.append(mark)
    return found


def _mark(row: Row, found: list[dict[str, Any]]) -> Mark | None:
    ours = tuple(accuracies(row, found))
    published = float(row.published.split()[0]) if row.published else None
    timed = [minutes_of(one) for one in found if not one["hardware"].startswith("cpu") and not one.get("gpu_shared")]
    label = row.label
    for long, short in SHORT.items():
        label = label.replace(long, short)
    minutes = statistics.mean(timed) if timed else None
    return Mark(label, ours, published, minutes) if ours or published is not None else None


# Accuracy against minutes


PANEL, GAP, HEAD = (545.0, 412.0), 20.0, 64.0
PLOT = (46.0, 34.0, 330.0, 366.0)
"""Left, top, right and bottom of the part of a panel that has minutes; systems without a time are right of it."""
STRIP = 366.0


def against_minutes(tables: Tables, records: Records) -> Drawing:
    """Accuracy on the unlabelled images against the minutes of a run, a panel for each data set on which a run
    was timed. Mixed piles are another task, with figures of others' networks beside ours."""
    found = {name: marks(name, tables, records) for name, of in tables.datasets.items() if not of.mixed}
    shown = [name for name, several in found.items() if any(mark.minutes for mark in several)]
    rows = -(-len(shown) // 2)
    drawing = Drawing(2 * PANEL[0] + GAP + 20, HEAD + rows * (PANEL[1] + GAP))
    _legend(drawing)
    for place, name in enumerate(shown):
        left, top = 10 + (place % 2) * (PANEL[0] + GAP), HEAD + (place // 2) * (PANEL[1] + GAP)
        _panel(drawing, left, top, tables.datasets[name].title, found[name])
    return drawing


def _legend(drawing: Drawing) -> None:
    drawing.text(10, 16, "Accuracy on the unlabelled images against the minutes of a whole run on one NVIDIA H200", 16)
    drawing.disc(18, 44, 5.5, OURS)
    drawing.text(30, 44, "ours, mean over the seeds that have a record", SIZE)
    drawing.disc(348, 44, 5.5, WHITE, GREY)
    drawing.text(360, 44, "published, drawn at our time; its own times are not known", SIZE)


def _panel(drawing: Drawing, left: float, top: float, title: str, several: list[Mark]) -> None:
    x0, y0, x1, y1 = left + PLOT[0], top + PLOT[1], left + PLOT[2], top + PLOT[3]
    timed = [mark for mark in several if mark.minutes is not None]
    others = [mark for mark in several if mark.minutes is None]
    values = [value for mark in several for value in (*mark.ours, *([mark.published] if mark.published else []))]
    low = 10 * int(min(values) / 10 - 0.2)
    longest = max(mark.minutes for mark in several if mark.minutes)
    step = 2 if longest < 12 else 5
    last = step * int(longest / step + 1.5)
    across = lambda minutes: x0 + (x1 - x0) * minutes / last  # noqa: E731
    height = _axis_of_accuracy(drawing, (x0, y0, left + STRIP + 10 if others else x1, y1), low)
    drawing.text(left + PLOT[0], top + 12, title, 14.5)
    for minutes in range(0, last + 1, step):
        drawing.text(across(minutes), y1 + 14, str(minutes), SMALL, GREY, "mm")
    drawing.text((x0 + x1) / 2, y1 + 34, "minutes", SMALL, GREY, "mm")
    if others:
        drawing.text(left + STRIP, y1 + 14, "no time", SMALL, GREY, "mm")
        drawing.line([(left + STRIP - 26, y0), (left + STRIP - 26, y1)], PALE)
    placed = [(across(mark.minutes or 0), mark) for mark in timed]
    for x, mark in [*placed, *((left + STRIP, mark) for mark in others)]:
        _draw(drawing, x, mark, height)
    _label_timed(drawing, placed, height, x1 + 6)
    _label_column(drawing, left + STRIP + 12, others, height, (y0 - 6, y1 + 6))


def _axis_of_accuracy(drawing: Drawing, place: tuple[float, float, float, float], low: int) -> Callable[[float], float]:
    """Grid lines with their per cent from ``low`` to 100; gives the height of an accuracy."""
    x0, y0, x1, y1 = place
    step = 5 if low >= 75 else 10 if low >= 40 else 20
    for value in range(low + (-low % step), 101, step):
        y = y1 - (y1 - y0) * (value - low) / (100 - low)
        drawing.line([(x0, y), (x1, y)], PALE)
        drawing.text(x0 - 8, y, f"{value} %" if value == 100 else str(value), SMALL, GREY, "rm")
    return lambda value: y1 - (y1 - y0) * (value - low) / (100 - low)


def _draw(drawing: Drawing, x: float, mark: Mark, height: Callable[[float], float]) -> None:
    mean = statistics.mean(mark.ours) if mark.ours else None
    if mean is not None and mark.published is not None:
        drawing.line([(x, height(mean)), (x, height(mark.published))], GREY, 1.2)
    if mark.published is not None:
        drawing.disc(x, height(mark.published), 5.5, WHITE, GREY)
    if mean is not None:
        deviation = _deviation(mark)
        drawing.line([(x, height(mean - deviation)), (x, height(mean + deviation))], OURS, 2.5)
        drawing.disc(x, height(mean), 5.5, OURS)


def _deviation(mark: Mark) -> float:
    return statistics.stdev(mark.ours) if len(mark.ours) > 1 else 0.0


def _where(mark: Mark) -> float:
    """The accuracy beside which a system's name stands."""
    return statistics.mean(mark.ours) if mark.ours else mark.published or 0.0


def _label_timed(
    drawing: Drawing, placed: list[tuple[float, Mark]], height: Callable[[float], float], right: float
) -> None:
    """The names of systems beside their marks: right or left of them, above or below, where nothing is yet."""
    taken = [(x - 7, height(value) - 7, x + 7, height(value) + 7) for x, mark in placed for value in _values(mark)]
    spreads = [(x, height(_where(mark)), _deviation(mark) * (height(0) - height(1))) for x, mark in placed]
    taken += [(x - 2, y - spread, x + 2, y + spread) for x, y, spread in spreads]
    for x, mark in sorted(placed, key=lambda one: (height(_where(one[1])), one[0])):
        wide, y = text_width(mark.label, SIZE), height(_where(mark))
        tries = [
            (x + 11 if side else x - 11 - wide, y + down) for down in (0, -9, 9, -18, 18, -27, 27) for side in (1, 0)
        ]
        boxes = [(a, b - 7.5, a + wide, b + 7.5) for a, b in tries]
        free = [box for box in boxes if box[2] < right and not any(_meet(box, other) for other in taken)]
        box = (free or boxes)[0]
        taken.append(box)
        drawing.text(box[0], box[1] + 7.5, mark.label, SIZE)
        if abs(box[1] + 7.5 - y) > 12:
            side = 1 if box[0] > x else -1
            drawing.line([(x + 6 * side, y), (box[0] - 3 if side > 0 else box[2] + 3, box[1] + 7.5)], GREY, 0.8)


def _values(mark: Mark) -> list[float]:
    return [_where(mark), *([mark.published] if mark.published is not None else [])]


def _meet(one: Sequence[float], other: Sequence[float]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _label_column(
    drawing: Drawing, x: float, several: list[Mark], height: Callable[[float], float], limits: tuple[float, float]
) -> None:
    """Names in a column, each near its mark; a line leads to those that had to give way."""
    several = sorted(several, key=lambda mark: height(_where(mark)))
    places = spread([height(_where(mark)) for mark in several], 16.5, *limits)
    for mark, y in zip(several, places, strict=True):
        drawing.line([(x - 4, height(_where(mark))), (x + 14, y)], GREY, 0.8)
        drawing.text(x + 18, y, mark.label, SIZE, BLACK if mark.ours else GREY)


def spread(wanted: list[float], apart: float, low: float, high: float) -> list[float]:
    """Places, rising, near the ``wanted`` ones, rising, at least ``apart`` and, where they fit, within low and high."""
    groups: list[list[float]] = []  # sum of what the first place should be, number of places
    for place in wanted:
        groups.append([place, 1])
        while len(groups) > 1 and _first(groups[-2]) + groups[-2][1] * apart > _first(groups[-1]):
            last = groups.pop()
            groups[-1][0] += last[0] - last[1] * groups[-1][1] * apart
            groups[-1][1] += last[1]
    places = [_first(group) + i * apart for group in groups for i in range(int(group[1]))]
    for i in range(len(places)):
        places[i] = max(places[i], low + i * apart)
    for i in reversed(range(len(places))):
        places[i] = min(places[i], high - (len(places) - 1 - i) * apart)
    return places


def _first(group: list[float]) -> float:
    return group[0] / group[1]


# Accuracy against the dimension of the prototypes


DIMENSIONS = (64, 128, 256, 512, 1024)


def against_dimension(tables: Tables, records: Records) -> Drawing | None:
    """Accuracy of APL on CIFAR-10 against the dimension of its prototypes, once two have a record; others are named."""
    rows = {n: tables.rows.get(f"cifar10-apl-{n}") for n in DIMENSIONS}
    found = {n: accuracies(row, of_row(row, tables, records)) if row else [] for n, row in rows.items()}
    if sum(map(bool, found.values())) < 2:
        return None
    drawing = Drawing(620, 380)
    low = min([80, *(10 * int(min(values) / 10) for values in found.values() if values)])
    height = _axis_of_accuracy(drawing, (56, 50, 600, 310), low)
    drawing.text(10, 16, "APL on CIFAR-10, stage I cut to 30 %: accuracy on the unlabelled images", 16)
    points = []
    for place, (n, values) in enumerate(found.items()):
        x = 110 + 110 * place
        drawing.text(x, 326, f"{n:,}", SIZE, BLACK if values else GREY, "mm")
        drawing.line([(x, 306), (x, 310)], GREY)
        if values:
            points.append((x, Mark("", tuple(values))))
        else:
            drawing.text(x, 300, "not run yet", SMALL, GREY, "ms")
    drawing.line([(x, height(_where(mark))) for x, mark in points], OURS, 1.5) if len(points) > 1 else None
    for x, mark in points:
        _draw(drawing, x, mark, height)
        drawing.text(x, height(_where(mark)) + 20, f"{_where(mark):.1f}", SIZE, BLACK, "mm")
    drawing.text(330, 356, "dimension of the prototypes (the paper's is 512)", SIZE, GREY, "mm")
    return drawing


# Pictures of single runs


def draw_features(tables: Tables, folder: Path) -> Drawing | None:
    """The maps of features that lie beside a record of APL on CIFAR-10, of the first seed that has them."""
    found = _job("cifar10-apl", tables, lambda name: (folder / f"{name}.csv").exists())
    if not found:
        return None
    with (folder / f"{found.name}.csv").open() as file:
        rows = list(csv.DictReader(file))
    maps = []
    for title in dict.fromkeys(row["map"] for row in rows):
        own = [row for row in rows if row["map"] == title]
        places = np.array([(float(row["x"]), float(row["y"])) for row in own])
        maps.append(Map(title, places, [row["category"] for row in own]))
    n = len(maps[0].categories)
    title = f"APL on CIFAR-10, seed {found.seed}: t-SNE of the features of {n:,} unlabelled images, by true category"
    return draw_maps(title, maps)


def draw_confusion(tables: Tables, records: Records) -> Drawing | None:
    """The confusion matrices in a record of APL on CIFAR-10, of the first seed that has them."""
    found = _job("cifar10-apl", tables, lambda name: bool(records.get(name, {}).get("confusion")))
    if not found:
        return None
    title = f"APL on CIFAR-10, seed {found.seed}: per cent of each true category's images"
    return draw_matrices(title, records[found.name]["confusion"])


def _job(row: str, tables: Tables, there: Callable[[str], bool]) -> Job | None:
    jobs = sorted((job for job in tables.jobs if job.row.name == row), key=lambda job: job.seed)
    return next((job for job in jobs if there(job.name)), None)


def charts(tables: Tables, records: Records, folder: Path) -> dict[str, Drawing | None]:
    """Every picture of the page, by the name of its file; None where what it needs has not been run. ``folder`` has
    what lies beside the records."""
    return {
        "results-minutes.png": against_minutes(tables, records),
        "results-dimension.png": against_dimension(tables, records),
        "results-features.png": draw_features(tables, folder),
        "results-confusion.png": draw_confusion(tables, records),
    }
