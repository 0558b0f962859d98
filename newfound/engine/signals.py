"""Ctrl-C and SIGTERM ask a run to stop after the current step, with a checkpoint; a second one stops it at once."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any

WATCHED = (signal.SIGINT, signal.SIGTERM)


class StopSignals:
    """While entered, the first signal sets ``asked`` and gives the signals back to whoever had them before."""

    def __init__(self, active: bool = True) -> None:
        self.asked = False
        self._active = active and threading.current_thread() is threading.main_thread()
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> StopSignals:
        if self._active:
            self._before = {s: signal.signal(s, self._handle) for s in WATCHED}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.asked = True
        self.__exit__()
