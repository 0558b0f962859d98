"""What metrics.jsonl tells, thinned out for a page."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from newfound.strangers import parse_json, read_small

MOST_POINTS = 30_000
"""Of all curves together."""
MOST_CURVES = 400
PLACE = ("stage", "epoch", "step")


def read_curves(path: Path) -> list[dict[str, Any]]:
    """For each stage its name, the steps and epochs that were logged, and a list of values for each figure."""
    stages: dict[str, list[dict[str, Any]]] = {}
    for line in _lines(path):
        stages.setdefault(str(line["stage"]), []).append(line)
    names = {stage: _figures(lines) for stage, lines in stages.items()}
    each = max(20, min(300, MOST_POINTS // max(1, sum(map(len, names.values())))))
    curves, n = [], 0
    for stage, lines in stages.items():
        n += len(names[stage])
        if n > MOST_CURVES:
            break
        some = [
            lines[round(i * (len(lines) - 1) / max(1, min(each, len(lines)) - 1))] for i in range(min(each, len(lines)))
        ]
        curves.append({
            "stage": stage,
            "steps": [line["step"] for line in some],
            "epochs": [line.get("epoch") for line in some],
            "figures": {name: [line.get(name) for line in some] for name in names[stage]},
        })  # fmt: skip
    return curves


def _lines(path: Path) -> list[dict[str, Any]]:
    """The lines that can be read: a run from elsewhere may have been cut."""
    found = []
    try:
        text = read_small(path).decode("utf-8", errors="replace")
    except OSError:
        return []
    for line in text.splitlines():
        try:
            content = parse_json(line)
        except ValueError:
            continue
        if isinstance(content, dict) and "stage" in content and _number(content.get("step")):
            found.append(content)
    return found


def _figures(lines: list[dict[str, Any]]) -> list[str]:
    """Names of what is a number in the first line: the loss first, the learning rate last."""
    names = [name for name, value in lines[0].items() if name not in PLACE and _number(value)]
    return sorted(names, key=lambda name: (name != "loss", name == "lr", name))


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
