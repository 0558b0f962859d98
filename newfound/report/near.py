"""Which known categories novel ones are near, by a run's result, and which of the known ones an earlier run found."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
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


def found_before(known: Sequence[str], next_name: str | None) -> set[int]:
    """Which of the known categories of a grown run have their number from an earlier run: those that are numbered like
    ``next_name``, the first novel category of this one, and below it."""
    following = re.fullmatch(r"(.*?)([0-9]{1,9})", next_name or "", re.DOTALL)
    if not following:
        return set()
    numbers = [re.fullmatch(re.escape(following[1]) + r"([0-9]{1,9})", name) for name in known]
    return {i for i, number in enumerate(numbers) if number and int(number[1]) < int(following[2])}
