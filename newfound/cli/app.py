"""What commands are made with: an application that refuses options given twice, and calls that may be interrupted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import typer
from typer.core import TyperCommand

from newfound.errors import UserError

T = TypeVar("T")


class Once(TyperCommand):
    """A command that refuses an option given twice; otherwise the last one would win without a word."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if any(word == "" or (word.startswith("--") and word.count("=") == 1 and word.endswith("=")) for word in args):
            raise UserError("an argument is empty, which would mean the folder one is in: is a variable not set?")
        given = [word.partition("=")[0] for word in args]
        for option in self.params:
            names = [name for name in option.opts if sum(word == name for word in given) > 1]
            if names and not getattr(option, "multiple", False) and not getattr(option, "is_flag", False):
                raise UserError(f"{names[0]} is given more than once: give it once")
        return super().parse_args(ctx, args)


class App(typer.Typer):
    """A typer application all of whose commands are ``Once``, have -h, and show an ``example``."""

    def __init__(self, **options: Any) -> None:
        super().__init__(context_settings={"help_option_names": ["-h", "--help"]}, **options)

    def command(self, name: str | None = None, *, example: str = "", **options: Any) -> Any:
        return super().command(name, cls=Once, epilog=f"Example: {example}", **options)


def option(group: str, text: str, *names: str, **more: Any) -> Any:
    """An option that ``--help`` shows in that group, with that text; ``names`` if it is not called as its variable."""
    return typer.Option(*names, help=text, rich_help_panel=group, **more)


class Stopped(Exception):
    """An interruption on its way out, past typer, which would end without a word."""


def to_the_end(call: Callable[[], T]) -> T:
    """What the call gives; where it was interrupted, the sentence that says how to go on."""
    try:
        return call()
    except KeyboardInterrupt as error:
        raise Stopped(str(error) or "interrupted") from None
