"""The applications that commands belong to, and the options that several of them have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, overload

import typer

from newfound._version import __version__
from newfound.cli.app import App, option

app = App(
    name="newfound",
    help="Find the categories nobody labelled.",
    add_completion=False,
    pretty_exceptions_enable=False,
)

data_app = App(help="List, download or check data sets.")
app.add_typer(data_app, name="data")

IMAGES, INSTEAD, HOW, WHERE, OUTPUT = "Images", "Instead of folders", "Method", "Running", "Output"
"""The groups of options."""

Device = Annotated[str, option(WHERE, "The device: auto, cpu, cuda or cuda:N.")]
Seed = Annotated[int, option(WHERE, "The seed that everything random follows from.", min=0, max=2**31 - 1)]
Threads = Annotated[int, option(WHERE, "CPU threads; 0 takes what there are.", min=0, max=1024)]
Cache = Annotated[
    Path | None, option(WHERE, "The folder that decoded images are kept in; by default the user's cache folder.")
]
Quiet = Annotated[bool, option(OUTPUT, "Show no progress and no remarks.", "--quiet", "-q")]
Mixed = Annotated[bool, option(IMAGES, "Known categories may hide in the pile: look for them there, too.", "--mixed")]
Json = Annotated[bool, option(OUTPUT, "Print the result as JSON.", "--json")]
Link = Annotated[str | None, option(OUTPUT, "Make links of the kind symlink or hard instead of copies.")]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")]
DataName = Annotated[str, typer.Argument(metavar="NAME", help="A data set that `newfound data list` lists.")]
DataFolder = Annotated[Path | None, option(INSTEAD, "The folder that the data set's files are in.")]


@overload
def number(text: str) -> int | str: ...
@overload
def number(text: None) -> None: ...
def number(text: str | None) -> int | str | None:
    """A whole number where the text is one."""
    try:
        return text if text is None else int(text)
    except ValueError:
        return text


def _version(wanted: bool) -> None:
    if wanted:
        print(f"newfound {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass
