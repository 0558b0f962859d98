"""Ctrl-C, SIGTERM and SIGHUP ask a run to stop after the current step, with a checkpoint; asked again, it stops at
once."""

from __future__ import annotations

import os
import signal
import threading
import time
from types import FrameType
from typing import Any

from newfound.process import ENDING, SOON, Ending


class StopSignals:
    """While entered, the first signal sets ``asked``. What comes within ``SOON`` is the same one: a shell and its
    parent pass Ctrl-C on, or a finger slipped. A later one gives the signals back, and is answered by whoever had
    them before.
    """

    def __init__(self, active: bool = True) -> None:
        self.asked = False
        self._active = active and threading.current_thread() is threading.main_thread()
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> StopSignals:
        for number in ENDING if self._active else ():
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # nohup has it ignored
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            # None is a handler that was not set from Python, and cannot be
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        self._before = {}

    def _handle(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if not self.asked:
            self.asked, Ending.heard = True, now
        elif now - Ending.heard >= SOON:
            before = self._before.get(signal.Signals(number))
            self.__exit__()
            if callable(before):
                before(number, frame)
            elif before == signal.SIG_DFL:
                os.kill(os.getpid(), number)
