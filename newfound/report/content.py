"""What the page says, gathered from a finished run folder."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from typing import Any

import numpy as np

from newfound.config.mapping import to_mapping
from newfound.data.sources import Source
from newfound.errors import UserError
from newfound.report.correct import correctable
from newfound.report.curves import read_curves
from newfound.report.keep import Kept, choose_images, largest
from newfound.report.matrix import Pairs, matrix, meanings
from newfound.report.near import found_before, read_near
from newfound.report.sprites import Sheets
from newfound.report.text import fitted
from newfound.report.tsne import MOST_POINTS, sample_points
from newfound.runfolder import CONFUSION, CONFUSION_COLUMNS, Run

IMAGE_NAMES, CATEGORY_NAMES = 1_500_000, 300_000
"""Bytes that the names of the images, and those of the categories, may take."""
KNOWN_NAMES = 200
"""Names of known categories that the page has, whether images of the pile went to them or not."""
MOST_SKIPPED = 300
MOST_TOLD = 30
"""Choices, and warnings, that a page shows; a run has a handful."""
MOST_NUMBERS = 100
"""Of novel categories that a curve is shown for; a run has forty."""
SCALE = 9999
"""Positions on the map are whole numbers up to this one."""


def gather(run: Run, kept: Kept | None) -> dict[str, Any]:
    """Everything the page's script is given, from the files of the run and what it kept."""
    result, rows = run.read_result(), run.read_assignments()
    try:
        novel, known = [str(name) for name in result["novel"]], [str(name) for name in result["known"]]
        number = {name: i for i, name in enumerate(known + novel)}
        assignments = np.array([number[row["category"]] for row in rows])
        confidence = np.nan_to_num(np.array([float(row["confidence"]) for row in rows]))
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"the result of {run.folder} and its assignments.csv do not fit together: {error!r}") from None
    if not rows or (kept and kept.images.max(initial=0) >= len(rows)):
        raise UserError(f"{run.folder / 'assignments.csv'} has {len(rows)} lines, fewer than the run had images")
    kept = kept or _by_confidence(assignments, confidence, len(known) + np.arange(len(novel)))
    pairs = _read_pairs(run)
    meaning = meanings(pairs.get("unlabelled", ())) | {name: name for name in known}
    before = found_before(known, run.call.source.next_name)
    content = {name: result.get(name) for name in ("newfound", "method", "data", "seed", "finished")}
    content |= {name: result.get(name) for name in ("seconds", "hardware", "versions", "unlabelled", "test", "earlier")}
    content |= {"auto": _choices(result.get("auto")), "warnings": _warnings(result.get("warnings"))}
    content["counted"] = _counted(_part(result, "counted"))
    content |= {
        "counts": result.get("images"),
        "novel": len(novel),
        "mixed": _mixed(assignments[assignments < len(known)]) if run.call.source.mixed else None,
        "known": {"n": len(known), "names": fitted(known[:KNOWN_NAMES], 20_000), "before": sorted(before)},
        "confidence": float(confidence.mean()),
        "calibrated": bool(_part(result, "confidence").get("calibrated")),
        "plain": _part(result, "trust").get("plain"),
        **_categories(kept, known + novel, len(known), assignments, confidence, pairs.get("unlabelled", ()), rows,
                      read_near(result), before, run.call.source),
        "map": _map(kept.positions),
        "gallery": _layout(kept.gallery),
        "matrices": [matrix(part, some, novel, known, meaning) for part, some in pairs.items()],
        "curves": read_curves(run.folder / "metrics.jsonl"),
        "settings": _settings(run),
        "skipped": _skipped(run),
    }  # fmt: skip
    return content


def _mixed(known: np.ndarray) -> dict[str, int]:
    """What is said of a mixed pile, of whose images those with the known categories ``known`` [n] were given such."""
    return {"old": len(known), "categories": len(np.unique(known))}


def _choices(found: Any) -> list[list[str]]:
    """What was chosen for the person: what, value and why of each choice."""
    choices = [choice for choice in found if isinstance(choice, dict)] if isinstance(found, list) else []
    return [[str(choice.get(name, "")) for name in ("what", "value", "why")] for choice in choices[:MOST_TOLD]]


def _counted(found: dict[str, Any]) -> dict[str, Any] | None:
    """The estimated number of novel categories with its interval and its curve; None where it was not estimated."""
    try:
        low, high = (int(end) for end in found["interval"])
        estimate, curve = int(found["estimate"]), [[int(n), float(owned)] for n, owned in found["curve"][:MOST_NUMBERS]]
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
    return {"estimate": estimate, "interval": [low, high], "curve": curve} if len(curve) > 1 else None


def _part(result: dict[str, Any], name: str) -> dict[str, Any]:
    found = result.get(name)
    return found if isinstance(found, dict) else {}


def _warnings(found: Any) -> list[str]:
    return [str(warning) for warning in found[:MOST_TOLD]] if isinstance(found, list) else []


def _by_confidence(assignments: np.ndarray, confidence: np.ndarray, novel: np.ndarray) -> Kept:
    """What can be said of a run that kept nothing: the surest images stand for the typical ones; no map."""
    shown = largest(assignments, np.union1d(novel, assignments))
    points = sample_points(assignments, MOST_POINTS, 0)
    images, typical, doubtful = choose_images(assignments, confidence, confidence, shown, points, 0)
    nobody, none = np.full(len(images), -1), np.empty((len(shown), 0), np.int64)
    return Kept(images, confidence[images], nobody, np.empty((0, 2)), shown, typical, doubtful, none)


def _categories(
    kept: Kept, names: list[str], n_known: int, assignments: np.ndarray, confidence: np.ndarray, pairs: Pairs,
    rows: list[dict[str, str]], near: dict[str, list[str]], before: set[int],
    source: Source,
) -> dict[str, Any]:  # fmt: skip
    """The images, the shown categories, and the names of these and of others that are next to them."""
    sizes = np.bincount(assignments, minlength=len(names))
    sums = np.bincount(assignments, confidence, minlength=len(names))
    place = {int(category): i for i, category in enumerate(kept.shown)}
    number = {name: category for category, name in enumerate(names[:n_known])}
    like = [[number[name] for name in near.get(names[category], ())] for category in kept.shown.tolist()]
    for category in [*chain(*like), *np.concatenate([kept.nearest.ravel(), kept.other]).tolist()]:
        if category >= 0:
            place.setdefault(int(category), len(place))
    place[-1] = -1
    titles = [names[category] for category in place if category >= 0]
    files = [rows[row]["image"] for row in kept.images]
    truths = _truths(pairs)
    found, sure = assignments[kept.images], confidence[kept.images]
    by_typicality = np.argsort(-kept.typicality, kind="stable")
    members = by_typicality[np.argsort(found[by_typicality], kind="stable")]
    ends = np.searchsorted(found[members], [kept.shown, kept.shown + 1])
    categories = []
    for line, category in enumerate(kept.shown.tolist()):
        categories.append({
            "size": int(sizes[category]),
            "sure": float(sums[category] / max(1, sizes[category])),
            "images": members[ends[0, line] : ends[1, line]].tolist(),
            "typical": [image for image in kept.typical[line].tolist() if image >= 0],
            "doubtful": [image for image in kept.doubtful[line].tolist() if image >= 0],
            "like": [place[other] for other in like[line]],
            "near": [place[other] for other in kept.nearest[line].tolist() if other >= 0],
            "truth": truths.get(names[category], []),
        })  # fmt: skip
    shown = {int(category): i for i, category in enumerate(kept.shown)}
    return {
        "categories": categories,
        "labels": fitted(titles, CATEGORY_NAMES),
        "correct": correctable(source, kept, titles, names[:n_known][:KNOWN_NAMES], files, found, len(rows)),
        "old": [place[c] for c in place if 0 <= c < n_known],
        "before": [place[c] for c in place if c in before],
        "images": {
            "of": len(rows),
            "names": fitted(files, IMAGE_NAMES),
            "sure": [round(value, 3) for value in sure.tolist()],
            "category": [shown.get(category, -1) for category in found.tolist()],
            "other": [place[other] for other in kept.other.tolist()],
            "layout": _layout(kept.thumbnails),
        },
    }


def _layout(sheets: Sheets | None) -> dict[str, int] | None:
    return {"side": sheets.side, "cell": sheets.cell, "columns": sheets.columns} if sheets else None


def _map(positions: np.ndarray) -> dict[str, list[int]]:
    """Where the first images lie on the map."""
    low, high = (positions.min(0), positions.max(0)) if len(positions) else (np.zeros(2), np.ones(2))
    span = max(float((high - low).max()), 1e-12)
    where = np.round((positions - (low + high) / 2) / span * SCALE + SCALE / 2).astype(int)
    return {"x": where[:, 0].tolist(), "y": where[:, 1].tolist()}


def _read_pairs(run: Run) -> dict[str, Pairs]:
    if not run.has(CONFUSION):
        return {}
    parts: dict[str, list[tuple[str, str, int]]] = {}
    for row in run.read_table(CONFUSION, CONFUSION_COLUMNS):
        if row["part"] in ("unlabelled", "test") and row["images"].isascii() and row["images"].isdigit():
            parts.setdefault(row["part"], []).append((row["found"], row["truth"], int(row["images"][:12])))
    return dict(parts)


def _truths(pairs: Pairs) -> dict[str, list[tuple[str, int]]]:
    """For each found category the three true ones that most of its images are of."""
    truths: dict[str, list[tuple[str, int]]] = {}
    for found, truth, images in sorted(pairs, key=lambda pair: -pair[2]):
        if len(truths.setdefault(found, [])) < 3:
            truths[found].append((fitted([truth], 60)[0], images))
    return truths


def _settings(run: Run) -> dict[str, Any]:
    """The call, without the place of the cache, which is nobody's business, and the settings."""
    call = to_mapping(run.call)
    call.pop("cache", None)
    source = call.pop("source", {})
    given = {name: value for name, value in source.items() if value is not None}
    return {"images": given, "run": call, **to_mapping(run.settings)}


def _skipped(run: Run) -> dict[str, Any]:
    path = run.folder / "skipped.csv"
    rows = run.read_table(path.name, ("file", "reason")) if path.exists() else []
    reasons = Counter(row["reason"] for row in rows)
    return {
        "n": len(rows),
        "reasons": [[reason, n] for reason, n in reasons.most_common(20)],
        "files": [[row["file"], row["reason"]] for row in rows[:MOST_SKIPPED]],
    }
