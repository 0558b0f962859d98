"""newfound finds the categories nobody labelled. Names are loaded when used: importing newfound imports no torch."""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from newfound._version import __version__

if TYPE_CHECKING:
    from newfound.errors import UserError
    from newfound.estimator import APL, Discoverer, load
    from newfound.runs.discovery import Discovery, discover, resume

if "OMP_WAIT_POLICY" not in os.environ:
    # OpenMP's threads spin this often before they sleep; read when torch is imported. By default they spin for long,
    # which on two cores that other programs use too cost three quarters of the speed.
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")

_PLACES = {
    "APL": "newfound.estimator",
    "Discoverer": "newfound.estimator",
    "Discovery": "newfound.runs.discovery",
    "UserError": "newfound.errors",
    "discover": "newfound.runs.discovery",
    "load": "newfound.estimator",
    "resume": "newfound.runs.discovery",
}

__all__ = ["APL", "Discoverer", "Discovery", "UserError", "__version__", "discover", "load", "resume"]


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        return getattr(import_module(_PLACES[name]), name)
    raise AttributeError(f"module 'newfound' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
