"""Make the pages in docs/reference from the code: settings, commands and the Python interface.

python tools/reference.py
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import itertools
import math
import sys
import textwrap
import types
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import typer
from typer.models import ArgumentInfo

import newfound
from newfound import evaluate
from newfound.cli.commands import app
from newfound.config.settings import Settings
from newfound.methods import get_method, method_names

PAGES = Path(__file__).parents[1] / "docs" / "reference"

TITLES = {
    "CropSettings": "Crops",
    "DinoSettings": "DINO",
    "EpisodeSettings": "Episodes",
    "HashSettings": "Hashing",
    "InstanceSettings": "Instance discrimination",
    "MoCoV2Settings": "MoCo v2",
    "MultiViewSettings": "Views",
    "PlanSettings": "Training plan",
    "PrototypeSettings": "Prototypes",
    "SelfTrainingSettings": "Self-training",
}
"""Headings of groups of settings, where they are not the class's name."""

SETTINGS = """# Settings

Made from the code by `make reference`.

A setting has a dotted name, such as `stage1.epochs`. Give it as `--set stage1.epochs=50` on the command line, as
`settings={{"stage1.epochs": 50}}` in Python, or in a recipe. The first word is a part of the method, the second a
setting of that part. The tables of a method list its parts, and the groups at the end of the page list what a part has.

The defaults hold where a recipe says nothing. `newfound methods NAME` lists the recipes and the settings of a method,
and `settings.yaml` in a run folder has every value that the run used. Unknown names, wrong types and values out of
range are refused before anything is written.

{methods}

{groups}
"""

COMMANDS = """# Commands

Made from the commands' own help by `make reference`; `newfound COMMAND --help` prints the same.

Results go to standard output, progress and warnings to standard error. The exit status is 0 if the command did its
work, 2 if the call or the input is wrong, 130 if it was interrupted, and 1 for anything else.

{commands}
"""

PYTHON = """# Python

Made from the docstrings by `make reference`. All names are imported from `newfound`, and those that begin with
`evaluate.` from `newfound.evaluate`. There, `Labels` are a list, an array, a tensor, a column of a table or a
generator: a whole number or a string for each image.

{names}

{judging}
"""


def fields_of(cls: type) -> Iterator[tuple[dataclasses.Field[Any], Any, str]]:
    """Each setting of a dataclass: its field, its type and what the docstring below it says."""
    hints, said = typing.get_type_hints(cls), meanings(cls)
    for field in dataclasses.fields(cls):
        yield field, hints[field.name], said.get(field.name, "")


def meanings(cls: type) -> dict[str, str]:
    """What the docstrings below the fields of a class, and of the classes it comes from, say."""
    found: dict[str, str] = {}
    for one in reversed(cls.__mro__):
        if not dataclasses.is_dataclass(one):
            continue
        body = typing.cast(ast.ClassDef, ast.parse(textwrap.dedent(inspect.getsource(one))).body[0]).body
        for node, after in itertools.pairwise(body):
            if (
                isinstance(node, ast.AnnAssign)
                and isinstance(after, ast.Expr)
                and isinstance(after.value, ast.Constant)
            ):
                assert isinstance(node.target, ast.Name)
                found[node.target.id] = " ".join(str(after.value.value).split())
    return found


def values_of(field: dataclasses.Field[Any], hint: Any) -> str:
    """What a setting may be, in words."""
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        hint = next(one for one in typing.get_args(hint) if one is not types.NoneType)
    if typing.get_origin(hint) is Literal:
        return ", ".join(f"`{value}`" for value in typing.get_args(hint))
    if typing.get_origin(hint) is tuple:
        return "list of numbers"
    low, high = field.metadata.get("range", (None, None))
    name = {int: "whole number", float: "number", bool: "`true`, `false`", str: "text"}[hint]
    if low is None:
        return name
    return f"{name}, {low:,} or more" if high == math.inf else f"{name}, {low:,} to {high:,}"


def shown(value: Any) -> str:
    """A default, as a recipe writes it."""
    if value is None:
        return "by domain"
    if isinstance(value, tuple):
        return f"`[{', '.join(map(str, value))}]`"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value}`" if value != "" else "none"


def table(cls: type, skip: typing.Container[str] = ()) -> str:
    rows = [
        f"| `{field.name}` | {values_of(field, hint)} | {shown(field.default)} | {meaning} |"
        for field, hint, meaning in fields_of(cls)
        if field.name not in skip and not dataclasses.is_dataclass(hint)
    ]
    return "\n".join(["| setting | values | default | meaning |", "|---|---|---|---|", *rows]) if rows else ""


def summary(cls: type) -> str:
    return (inspect.getdoc(cls) or "").replace("``", "`")


def title(cls: type) -> str:
    return TITLES.get(cls.__name__) or cls.__name__.removesuffix("Settings")


def parts(cls: type) -> list[tuple[str, type, dict[str, Any]]]:
    """The groups of a method's settings: the name of each, its class, and the defaults that are the method's own."""
    found = []
    for field, hint, _ in fields_of(cls):
        if dataclasses.is_dataclass(hint):
            plain = typing.cast(type, hint)()
            own = {f.name: getattr(field.default, f.name) for f in dataclasses.fields(plain)}
            found.append((field.name, plain.__class__, {k: v for k, v in own.items() if v != getattr(plain, k)}))
    return found


def settings_page() -> str:
    groups: dict[type, None] = {}
    methods = ["## Every method", "", summary(Settings), "", table(Settings, skip=("method",)), ""]
    shared = {field.name for field in dataclasses.fields(Settings)}
    for name in method_names():
        cls = get_method(name).Settings
        methods += [f"## Method {name}", "", summary(cls), ""]
        if own := table(cls, skip=shared):
            methods += [own, ""] if own.count("\n") > 1 else []
        methods += ["| part | settings | defaults of its own |", "|---|---|---|"]
        for part, group, defaults in parts(cls):
            groups.setdefault(group)
            changed = ", ".join(f"`{key}` {shown(value)}" for key, value in defaults.items())
            methods.append(f"| `{part}` | [{title(group)}](#{anchor(group)}) | {changed} |")
        methods.append("")
    pages = [f"## {title(g)}\n\n{summary(g)}\n\n{table(g)}" for g in sorted(groups, key=title)]
    return SETTINGS.format(methods="\n".join(methods).rstrip(), groups="\n\n".join(pages))


def anchor(cls: type) -> str:
    return title(cls).lower().replace(" ", "-")


def commands_page() -> str:
    groups = [("newfound", app), *((f"newfound {group.name}", group.typer_instance) for group in app.registered_groups)]
    found = [
        _command(f"{path} {info.name or callback.__name__}", callback)
        for path, group in groups
        for info in typing.cast(typer.Typer, group).registered_commands
        if (callback := info.callback)
    ]
    return COMMANDS.format(commands="\n\n".join(found))


def _command(path: str, callback: Callable[..., Any]) -> str:
    """A section on a command: what it does, how it is called, its arguments and options."""
    usage, rows = [path], []
    for parameter in inspect.signature(callback, eval_str=True).parameters.values():
        kind, about = typing.get_args(parameter.annotation)
        argument, required = isinstance(about, ArgumentInfo), parameter.default is parameter.empty
        if argument:
            name = about.metavar or f"{parameter.name.upper()}…"
            usage.append(name)
        else:
            given = [word for word in (about.default, *(about.param_decls or ())) if str(word).startswith("-")]
            name = ", ".join(given or [f"--{parameter.name.replace('_', '-')}"])
            name += "" if kind is bool else f" {_value(kind)}"
            usage += [name] if required else []
        unsaid = parameter.default is None or parameter.default is False
        default = "required" if required else "" if unsaid else f"`{parameter.default}`"
        rows.append(f"| `{name}` | {default} | {about.help} |")
    says = inspect.getdoc(callback) or ""
    head = [
        f"## {path}",
        "",
        says,
        "",
        f"    {' '.join([*usage, '[OPTIONS]'])}",
        "",
        "| | default | |",
        "|---|---|---|",
    ]
    return "\n".join([*head, *rows])


def _value(kind: Any) -> str:
    """What follows an option of that type."""
    while inside := [one for one in typing.get_args(kind) if one is not types.NoneType]:  # of a list, or with None
        kind = inside[0]
    return {int: "N", float: "NUMBER", Path: "PATH", str: "TEXT"}[kind]


def python_page() -> str:
    things = {name: getattr(newfound, name) for name in newfound.__all__ if not name.startswith("_")}
    depth = {name: len(thing.__mro__) if inspect.isclass(thing) else 0 for name, thing in things.items()}
    # Functions first, and a class before those that inherit from it.
    order = sorted(things, key=lambda name: (name == "UserError", depth[name], name))
    judging = (_object(getattr(evaluate, name), f"evaluate.{name}") for name in evaluate.__all__)
    return PYTHON.format(names="\n\n".join(_object(things[name], name) for name in order), judging="\n\n".join(judging))


def _object(thing: Any, name: str) -> str:
    if not inspect.isclass(thing):
        return f"## {name}\n\n{_signature(name, thing)}\n\n{_prose(inspect.getdoc(thing))}"
    text = [f"## {name}", _signature(name, thing) if not issubclass(thing, Exception) else "", _prose(thing.__doc__)]
    for method, found in vars(thing).items():
        found = getattr(thing, method) if isinstance(found, classmethod) else found
        if inspect.isfunction(found) and not method.startswith("_"):
            text += [f"### {name}.{method}", _signature(f"{name}.{method}", found), _prose(inspect.getdoc(found))]
    return "\n\n".join(filter(None, text))


def _signature(name: str, thing: Any) -> str:
    """How it is called, a line an argument where there are many."""
    words: list[str] = []
    for parameter in inspect.signature(thing).parameters.values():
        if parameter.name in ("self", "cls"):
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in words:
            words.append("*")
        default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
        words.append(f"{parameter.name}: {parameter.annotation}{default}")
    if len(words) > 4:
        return "```python\n" + f"{name}(\n" + "".join(f"    {word},\n" for word in words) + ")\n```"
    return f"```python\n{name}({', '.join(words)})\n```"


def _prose(text: str | None) -> str:
    """A docstring as Markdown: what stands below Parameters or Attributes becomes a list, examples become code."""
    lines = inspect.cleandoc(text or "").splitlines()
    made: list[str] = []
    listing = example = False
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        if line.startswith(">>>") and not example:
            made.append("```pycon")
            example = True
        if example:
            made += [line] if line else ["```", ""]
            example = bool(line)
            continue
        line = line.replace("``", "`")
        if after and set(after) == {"-"}:
            made += [f"**{line}**", ""]
            listing = True
        elif line and set(line) == {"-"}:
            continue
        elif listing and " : " in line and not line.startswith(" "):
            name, _, rest = line.partition(" : ")
            typed = after.startswith(" ") and not after.strip()[0].islower()  # a sentence begins below: this is a type
            made.append(f"- `{name}` ({rest}):" if typed else f"- `{name}`: {rest}")
        elif listing and line.startswith(" "):
            made.append(f"    {line.strip()}")
        else:
            made.append(line)
            listing = listing and not line
    return "\n".join([*made, "```"] if example else made)


MADE = {"settings.md": settings_page, "commands.md": commands_page, "python.md": python_page}

if __name__ == "__main__":
    PAGES.mkdir(exist_ok=True)
    for file, make in MADE.items():
        (PAGES / file).write_text(make().rstrip() + "\n")
        print(PAGES / file, file=sys.stderr)
