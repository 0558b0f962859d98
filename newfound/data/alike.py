"""Names of categories that are probably meant to be one."""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Iterable

from newfound.progress import Reporter


def warn_of_like_names(names: Iterable[str | None], reporter: Reporter) -> None:
    """Warn where names differ in nothing but capital letters, spaces around them, or how accents are encoded."""
    alike: dict[str, list[str]] = defaultdict(list)
    for name in dict.fromkeys(names):
        if name is not None:
            alike[unicodedata.normalize("NFC", name).strip().casefold()].append(name)
    if some := next((some for some in alike.values() if len(some) > 1), None):
        reporter.warn(
            "categories have names that differ in capital letters or spaces alone, such as "
            f"{' and '.join(map(repr, some))}: they count as different ones; give them one name if they are one"
        )
