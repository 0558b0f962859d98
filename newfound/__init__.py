"""newfound finds the categories nobody labelled. Names are loaded when used: importing newfound imports no torch."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from newfound._version import __version__
from newfound.process import set_up

if TYPE_CHECKING:
    from newfound.count.result import Count
    from newfound.errors import UserError
    from newfound.estimator.apl import APL
    from newfound.estimator.discoverer import Discoverer
    from newfound.estimator.saved import load
    from newfound.runs.compare import Comparison, compare
    from newfound.runs.counting import count_novel
    from newfound.runs.discovery import discover, resume
    from newfound.runs.found import Discovery, open_run
    from newfound.runs.grow import grow

set_up()

_PLACES = {
    "APL": "newfound.estimator.apl",
    "Comparison": "newfound.runs.compare",
    "Count": "newfound.count.result",
    "Discoverer": "newfound.estimator.discoverer",
    "Discovery": "newfound.runs.found",
    "UserError": "newfound.errors",
    "compare": "newfound.runs.compare",
    "count_novel": "newfound.runs.counting",
    "discover": "newfound.runs.discovery",
    "grow": "newfound.runs.grow",
    "load": "newfound.estimator.saved",
    "open_run": "newfound.runs.found",
    "resume": "newfound.runs.discovery",
}

_LIBRARIES = ("evaluate", "losses")
"""Packages for code of one's own (docs/library.md), which are there after ``import newfound``, too."""

__all__ = [
    "APL",
    "Comparison",
    "Count",
    "Discoverer",
    "Discovery",
    "UserError",
    "__version__",
    "compare",
    "count_novel",
    "discover",
    "grow",
    "load",
    "open_run",
    "resume",
]


if not TYPE_CHECKING:  # a type checker would take any name for one of ours

    def __getattr__(name: str) -> Any:
        if name in _PLACES:
            return getattr(import_module(_PLACES[name]), name)
        if name in _LIBRARIES:
            return import_module(f"newfound.{name}")
        raise AttributeError(f"module 'newfound' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
