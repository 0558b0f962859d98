"""Progress on standard error: bars on a terminal, one rewritten line in a notebook, a few plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self, TextIO

SECONDS_BETWEEN_LINES, LONGER = 10.0, 1.5
"""Seconds before the first line of a task, and how many times as long each further pause is: a dozen lines an hour."""
SECONDS_BETWEEN_REWRITES = 0.2
MOMENT = 1.0
"""Seconds below which a single step leaves no line."""
WIDTH = 80
"""Columns of a line that is not on a terminal."""

PICTURES = {code: 0x2400 + code for code in range(32)} | {127: 0x2421} | dict.fromkeys(range(128, 160), 0xFFFD)
PICTURES |= dict.fromkeys(range(0xDC80, 0xDCA0), 0xFFFD)
PICTURES |= dict.fromkeys((0x61C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A)), 0xFFFD)
"""What is shown in the place of control characters, which a terminal would obey: also as bytes that are not UTF-8, and
those that turn the direction of writing."""


def visible(text: str) -> str:
    """The text without control characters: names of files may hold them."""
    return text.translate(PICTURES)


def format_seconds(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def in_notebook() -> bool:
    """Whether standard error is shown in a notebook."""
    return type(sys.stderr).__module__.startswith("ipykernel")


def is_watched() -> bool:
    """Whether standard error is shown on a terminal or in a notebook."""
    return in_notebook() or (sys.stderr is not None and sys.stderr.isatty())


class Surviving:
    """A stream whose reader may go away: what can no longer be written is dropped, and the work goes on."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        try:
            if self._stream is not None:
                self._stream.write(text)
        except (OSError, ValueError):  # gone, full or closed
            pass
        return len(text)

    def flush(self) -> None:
        try:
            if self._stream is not None:
                self._stream.flush()
        except (OSError, ValueError):
            pass

    def isatty(self) -> bool:
        return self._stream is not None and not self._stream.closed and self._stream.isatty()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class Progress:
    """Something with an end that is being worked on; ``advance`` as it proceeds."""

    def __init__(self, title: str, total: int, unit: str, done: int = 0) -> None:
        self.title, self.total, self.unit = title, total, unit
        self.done = self._start_done = done
        self.figures: dict[str, float] = {}
        self.note = ""
        self.began = time.monotonic()

    def advance(self, n: int, **figures: float) -> None:
        """``n`` more are done; ``figures`` (losses, accuracies) replace the ones shown."""
        self.done += n
        if figures:
            self.figures = figures
        self._show()

    @property
    def rate(self) -> float:
        """Units a second since the task was begun (or resumed)."""
        return (self.done - self._start_done) / max(time.monotonic() - self.began, 1e-9)

    def describe(self) -> str:
        """One line of at most ``WIDTH`` columns; of the figures the loss alone, metrics.jsonl has the others."""
        share = f"{self.done:,}/{self.total:,} {self.unit}"
        return self._line([share, self._speed(), self._left(), self.note, self._loss()])

    def describe_end(self) -> str:
        """The line that a finished task leaves."""
        took = format_seconds(time.monotonic() - self.began)
        return self._line([f"{self.done:,}/{self.total:,} {self.unit} in {took}", self._speed(), self._loss()])

    def _line(self, parts: list[str]) -> str:
        """The title and those parts that fit, the first ones first."""
        line = f"{self.title}: {parts[0]}"
        for part in filter(None, parts[1:]):
            line = f"{line}  {part}" if len(line) + 2 + len(part) <= WIDTH else line
        return line

    def _loss(self) -> str:
        return f"loss {self.figures['loss']:.3g}" if "loss" in self.figures else ""

    def _left(self) -> str:
        return f"{format_seconds((self.total - self.done) / self.rate) if self.rate else '?'} left"

    def _speed(self) -> str:
        """How fast it goes; nothing of what comes once, or was all there before."""
        told = self.total > 1 and self.done > self._start_done
        return f"{self.rate:,.{0 if self.rate >= 10 else 1}f} {self.unit}/s" if told else ""

    def _show(self) -> None:
        pass

    def close(self) -> None:
        pass


class _LineProgress(Progress):
    def __init__(self, stream: Surviving, *args: Any) -> None:
        super().__init__(*args)
        self._stream = stream
        self._pause = SECONDS_BETWEEN_LINES
        self._last = self.began

    def _show(self) -> None:
        now = time.monotonic()
        if now - self._last >= self._pause and self.done < self.total:
            self._last, self._pause = now, self._pause * LONGER
            print(self.describe(), file=self._stream, flush=True)

    def close(self) -> None:
        if self.total > 1 or time.monotonic() - self.began >= MOMENT:
            print(self.describe_end(), file=self._stream, flush=True)


class _RewrittenProgress(Progress):
    """One line, written over and over: a notebook knows carriage returns, but is no terminal."""

    def __init__(self, stream: Surviving, *args: Any) -> None:
        super().__init__(*args)
        self._stream = stream
        self._last = self.began

    def _show(self) -> None:
        now = time.monotonic()
        if now - self._last >= SECONDS_BETWEEN_REWRITES:
            self._last = now
            print(f"\r{self.describe():{WIDTH}}", end="", file=self._stream, flush=True)

    def close(self) -> None:
        print(f"\r{self.describe_end():{WIDTH}}", file=self._stream, flush=True)


class _BarProgress(Progress):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        self._bar = Progress(
            TextColumn("{task.description}"), BarColumn(bar_width=12), TextColumn("{task.fields[text]}", markup=False),
            console=Console(file=Surviving(sys.stderr)),  # type: ignore[arg-type]
        )  # fmt: skip
        self._id = self._bar.add_task(self.title, total=self.total, completed=self.done, text="")
        self._bar.start()

    def _show(self) -> None:
        self._bar.update(self._id, completed=self.done, text=self.brief())

    def brief(self) -> str:
        """What fits beside a bar into 80 columns."""
        return "  ".join(filter(None, (self._speed(), self._left(), self.note, self._loss())))

    def close(self) -> None:
        self._show()
        self._bar.stop()


class Reporter:
    """Where a run says what it is doing. ``quiet`` silences progress and remarks, never warnings."""

    def __init__(self, quiet: bool = False, stream: TextIO | None = None) -> None:
        self.quiet = quiet
        self._stream = stream

    @classmethod
    def of(cls, verbose: bool | None) -> Self:
        """What ``verbose`` asks for; None asks for progress on a terminal and in a notebook."""
        return cls(quiet=not (is_watched() if verbose is None else verbose))

    @property
    def stream(self) -> Surviving:
        return Surviving(self._stream or sys.stderr)

    @contextmanager
    def task(self, title: str, total: int, unit: str = "images", done: int = 0) -> Iterator[Progress]:
        """A task of ``total`` units of which ``done`` were finished before (by an interrupted run)."""
        task: Progress
        if self.quiet:
            task = Progress(title, total, unit, done)
        elif self._stream is None and in_notebook():
            task = _RewrittenProgress(self.stream, title, total, unit, done)
        elif self._stream is None and self.stream.isatty():
            task = _BarProgress(title, total, unit, done)
        else:
            task = _LineProgress(self.stream, title, total, unit, done)
        try:
            yield task
        finally:
            task.close()

    def say(self, text: str) -> None:
        if not self.quiet:
            print(visible(text), file=self.stream, flush=True)

    def without_warnings(self) -> Reporter:
        """The same for what is done twice, and warns the other time."""
        return _Unwarning(self.quiet, self._stream)

    def warn(self, text: str) -> None:
        print(f"warning: {visible(text)}", file=self.stream, flush=True)


class _Unwarning(Reporter):
    def warn(self, text: str) -> None:
        pass
