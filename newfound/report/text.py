"""Names and numbers for a page: whatever they hold, they become text of a bounded size."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Sequence
from typing import Any

from newfound.progress import visible

LENGTHS = (200, 140, 100, 70, 48, 32, 20, 12, 8, 4)


def displayed(name: str) -> str:
    """The name as it can be shown: bytes that are not UTF-8 become �, control characters their pictures (␊)."""
    return visible(name.encode("utf-8", errors="surrogateescape").decode("utf-8", errors="replace"))


def shortened(name: str, most: int) -> str:
    """The name, or its beginning and end, of which the end (the file) tells more."""
    if len(name) <= most:
        return name
    head = most // 3
    return f"{name[:head]}…{name[len(name) - (most - head - 1) :]}"


def fitted(names: Sequence[str], budget: int) -> list[str]:
    """The names as they can be shown, shortened until together they take at most ``budget`` bytes of a page."""
    names = [
        displayed(name[: 2 * LENGTHS[0]] + name[-2 * LENGTHS[0] :] if len(name) > 1000 else name) for name in names
    ]
    for most in LENGTHS:
        short = [shortened(name, most) for name in names]
        if len(as_json(short)) <= budget:
            break
    return short


def as_json(content: Any) -> bytes:
    """JSON that can stand inside a <script> element: it holds no "<"."""
    text = json.dumps(_plain(content), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").encode()


def _plain(value: Any) -> Any:
    """The same without what JSON or UTF-8 cannot say; real numbers with five digits, bytes in base64."""
    if isinstance(value, str):
        return shortened(displayed(value), LENGTHS[0])
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, bool | int) or value is None:
        return value if not isinstance(value, int) or abs(value) < 2**53 else None
    if isinstance(value, float):
        return float(f"{value:.5g}") if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(_plain(str(key))): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return _plain(str(value))
