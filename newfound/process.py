"""What concerns the whole process: how threads wait, how memory is kept, what ends it."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import os
import signal
import sys
import time
from types import FrameType

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
"""glibc's numbers for two parameters of mallopt."""
LARGE = 2**30
"""Bytes. Smaller blocks come from the heap, and the heap keeps up to twice as much free memory."""


def set_up() -> None:
    """Set both, unless the environment says otherwise."""
    if "OMP_WAIT_POLICY" not in os.environ:
        # OpenMP's threads spin this often before they sleep; read when torch is imported. By default they spin for
        # long, which on two cores that other programs use too cost three quarters of the speed.
        os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    if not any(name.startswith("MALLOC_") for name in os.environ):
        keep_freed_memory()


def keep_freed_memory() -> None:
    """Have glibc keep freed blocks for the next tensor instead of giving them back to the system.

    By default each large tensor is mapped anew, and the system clears its pages one by one. On two cores that took most
    of the time of reading features: EfficientNet-Lite0, batches of 32 images of 224 pixels, went from 38 to 239
    images/s, where onnxruntime has 234. It costs memory: 1.8 instead of 1.1 GB at batches of 64.
    """
    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none
    if mallopt:
        mallopt(MMAP_THRESHOLD, LARGE)
        mallopt(TRIM_THRESHOLD, 2 * LARGE - 1)


def give_back_freed_memory() -> None:
    """Give the system what glibc has kept, so that it counts as free."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim:
        trim(0)


ENDING = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Signals that ask a process to end."""
SOON = 0.5
"""Seconds in which a second such signal is taken for the first."""


class Ending:
    """Has the signals of ``ENDING`` raise one KeyboardInterrupt; asked again later, the process ends at once.

    For a command: a second interruption while the first is being answered would end in a traceback.
    """

    heard = -SOON
    """When such a signal was first answered, by whomever."""

    def __init__(self) -> None:
        self._raised = False
        self._last_words = b"newfound: interrupted\n"
        self._status = 130

    def watch(self) -> None:
        for number in ENDING:
            if signal.getsignal(number) != signal.SIG_IGN:  # as nohup has SIGHUP, and a shell SIGINT in the background
                signal.signal(number, self._handle)
        atexit.register(self._ignore)  # the first one is called last

    def _ignore(self) -> None:
        """Python's last steps give signals back to the system, and one would change the status."""
        for number in ENDING:
            signal.signal(number, signal.SIG_IGN)

    def is_over(self, status: int) -> None:
        """From here on a signal ends the process with this status, without a word."""
        self._raised, self._last_words, self._status = True, b"", status

    def _handle(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if now - Ending.heard < SOON:
            return
        if self._raised:
            with contextlib.suppress(OSError):
                os.write(2, self._last_words)
            os._exit(self._status)
        self._raised, Ending.heard = True, now
        raise KeyboardInterrupt


_HERE = os.getpid()


def is_forked() -> bool:
    """Whether this process was forked, without exec, from one that had imported newfound."""
    return os.getpid() != _HERE
