"""Which known categories novel ones are near, by a run's result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def read_near(result: Mapping[str, Any]) -> dict[str, list[str]]:
    """For each novel category of a result the known ones that it is near, nearest first; none where it does not say."""
    found, known = result.get("near"), set(result.get("known", ()))
    found = found if isinstance(found, dict) else {}
    names = {name: found.get(name) for name in result["novel"]}
    return {
        name: [other for other in some if isinstance(other, str) and other in known] if isinstance(some, list) else []
        for name, some in names.items()
    }
