"""Standard streams that may be closed, full or gone: a result that cannot be written is an error, a remark is not."""

from __future__ import annotations

import io
import os
import select
import sys
from typing import Any

from newfound.progress import Surviving


class Unwritable(OSError):
    """Standard output took nothing more."""


class _Output(io.FileIO):
    """Standard output, whose failures are told from those of other files; one that is slow is waited for."""

    def write(self, content: Any) -> int:
        try:
            while (written := super().write(content)) is None:
                select.select([], [self], [])
        except BrokenPipeError:
            raise
        except OSError as error:
            raise Unwritable(error.errno, error.strerror) from None
        return written


def open_streams() -> None:
    """Have all three standard streams, as UTF-8 whatever the locale.

    A closed one would be None in Python, and its number that of the next file opened, in which what libraries print to
    it would then stand. So its place is taken: writing to a closed standard output fails, the others are empty.
    """
    for number, flags in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, flags)  # takes the smallest number that is free
    if sys.stdin is None:
        sys.stdin = open(0, closefd=False)  # noqa: SIM115 - for as long as the process lives
    if sys.stdout is None or _is_standard(sys.stdout, 1):
        raw = _Output(1, "wb", closefd=False)
        terminal = raw.isatty()
        sys.stdout = io.TextIOWrapper(
            io.BufferedWriter(raw), encoding="utf-8", errors="surrogateescape", line_buffering=terminal
        )
    if sys.stderr is None:
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
    if _is_standard(sys.stderr, 2):
        sys.stderr.reconfigure(encoding="utf-8", errors="backslashreplace")  # type: ignore[union-attr]
    sys.stderr = Surviving(sys.stderr)


def _is_standard(stream: Any, number: int) -> bool:
    """Whether a stream is the process's own, and not put there by who called."""
    try:
        return bool(stream.fileno() == number and hasattr(stream, "reconfigure"))
    except (OSError, ValueError, AttributeError):
        return False


def discard_output() -> None:
    """Let go of what standard output would not take, or Python would try once more at the end, and complain."""
    try:
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 1)
        os.close(nothing)
        sys.stdout.flush()
    except (OSError, ValueError):
        pass
