"""Errors that are sentences for the person at the keyboard."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence

_OPTION = re.compile(r"(`[^`]*`|\b(?:newfound|pip) [^;,:]*)|(?<![\w-])--([a-z]+(?:-[a-z]+)*)\b")
"""An option in a sentence; commands to type, in which options stay as they are, come first."""
_IN_PYTHON = {"novel": "n_novel", "set": "settings"}
"""Options of the command line that have another name in Python, beside their dashes."""
NEAR, MOST_MEANT = 0.7, 4
"""How near a name has to be to be suggested, and how many equally near ones are."""


def in_python(text: str) -> str:
    """A sentence in the words of the command line, ``--novel 12``, in those of Python, ``n_novel 12``."""

    def name(found: re.Match[str]) -> str:
        return found[1] or _IN_PYTHON.get(found[2], found[2].replace("-", "_"))

    return _OPTION.sub(name, text)


def did_you_mean(name: object, known: Iterable[str], prefix: str = "", others: Iterable[str] = ()) -> str:
    """The end of a sentence about a name that there is not: the nearest of those that there are, if these are few; or
    all, each after the ``prefix``, and ``others``, what else can be written. Capital and small letters are alike."""
    known = list(known)
    return did_you_mean_one_of([f"{prefix}{one}" for one in nearest(name, known)]) or (
        f"; there are: {', '.join([*(f'{prefix}{one}' for one in known), *others])}"
    )


def did_you_mean_one_of(meant: Sequence[str]) -> str:
    """The end of that sentence for names that may be meant; "" where there are none, or too many."""
    if not 1 <= len(meant) <= MOST_MEANT:
        return ""
    return f"; did you mean {' or '.join([', '.join(meant[:-1]), meant[-1]] if len(meant) > 1 else meant)}?"


def nearest(name: object, known: Iterable[str]) -> list[str]:
    """Those of the ``known`` names that are nearest to one that there is not; none where all are far from it."""
    word = str(name).casefold()
    near = {one: _nearness(word, one.casefold()) for one in known}
    best = max(near.values(), default=0.0)
    return [one for one, value in near.items() if value == best >= NEAR]


def _nearness(word: str, known: str) -> float:
    """From 0 to 1: of names that begin or end with the word, and of the same letters in another order, it is 1."""
    if known.startswith(f"{word}-") or known.endswith(f"-{word}") or sorted(word) == sorted(known):
        return 1.0
    return difflib.SequenceMatcher(None, known, word).ratio()


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
