"""Errors that are sentences for the person at the keyboard."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

_OPTION = re.compile(r"(`[^`]*`|\b(?:newfound|pip) [^;,:]*)|(?<![\w-])--([a-z]+(?:-[a-z]+)*)\b")
"""An option in a sentence; commands to type, in which options stay as they are, come first."""
_IN_PYTHON = {"novel": "n_novel", "set": "settings"}
"""Options of the command line that have another name in Python, beside their dashes."""


def in_python(text: str) -> str:
    """A sentence in the words of the command line, ``--novel 12``, in those of Python, ``n_novel 12``."""

    def name(found: re.Match[str]) -> str:
        return found[1] or _IN_PYTHON.get(found[2], found[2].replace("-", "_"))

    return _OPTION.sub(name, text)


def did_you_mean(name: object, known: Iterable[str], prefix: str = "") -> str:
    """The end of a sentence about a name that there is not: the nearest one that there is, or all there are, each after
    the ``prefix``. Capital and small letters are alike."""
    names = {one.casefold(): f"{prefix}{one}" for one in known}
    close = difflib.get_close_matches(str(name).casefold(), names, n=1, cutoff=0.7)
    return f"; did you mean {names[close[0]]}?" if close else f"; there are: {', '.join(names.values())}"


class UserError(ValueError):
    """The input or the call is wrong: one sentence saying what was found, where, and what to do. Exit status 2.

    It is written in the words of the command line, ``--novel 12``, which ``command_line`` gives back. As a string it
    has those of Python: ``n_novel 12``.
    """

    @property
    def command_line(self) -> str:
        return " ".join(map(str, self.args))

    def __str__(self) -> str:
        return in_python(self.command_line)


class Interrupted(KeyboardInterrupt):
    """The person (Ctrl-C) or the system (SIGTERM) asked a run to stop, and it can be resumed. Exit status 130."""


class Diverged(RuntimeError):
    """A loss is no longer a number. Exit status 1."""
