"""The way in: every failure of a command becomes one line and an exit status, and with --json an object on standard
output too."""

from __future__ import annotations

import errno
import json
import os
import sys

import typer

from newfound.cli.app import Stopped
from newfound.cli.commands import app
from newfound.cli.streams import Unwritable, discard_output, open_streams
from newfound.errors import Diverged, UserError
from newfound.memory import ran_out
from newfound.process import Ending
from newfound.progress import visible

WRONG_CALL: tuple[type[BaseException], ...] = typer.BadParameter.__mro__[1:3]
"""UsageError and ClickException, wherever this version of typer keeps them."""

WRONG_PLACE = (
    errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG, errno.ELOOP,
    errno.EINVAL, errno.EFBIG,
)  # fmt: skip
"""What the file system says of a path that was given wrongly; the last two are what strangers.py says of a file that is
not regular, or too large."""


FULL = errno.ENOSPC, errno.EDQUOT
ROOM = (
    "end other programs, or call again with a smaller batch or data.size, or with fewer images; a run that had begun "
    "goes on with `newfound resume RUN`"
)
FREE = "free some space and call again; a run that had begun goes on with `newfound resume RUN`"


def main(ending: Ending | None = None) -> None:
    """Run the command line; every failure is one line and an exit status (0, 1, 2 or 130)."""
    ending = ending or Ending()
    try:
        ending.watch()
        open_streams()
        found = status()
    except KeyboardInterrupt:  # between two of the lines above or of ``status``
        found = _complain("interrupted", 130)
    ending.is_over(found)
    sys.exit(found)


def status() -> int:
    """Run the command that the arguments name; gives the exit status."""
    try:
        found = int(app(sys.argv[1:] or ["--help"], standalone_mode=False) or 0)
        sys.stdout.flush()  # here, where what goes wrong is still a sentence
        return _complain("interrupted", 130) if found == 130 else found  # typer ends Ctrl-C without a word
    except UserError as error:
        return _complain(error.command_line, 2)
    except WRONG_CALL as error:
        said = error.format_message()  # type: ignore[attr-defined]
        hint = ": paths go with an option, and those with spaces in quotes" if "extra argument" in said else ""
        return _complain(said + hint, 2)
    except Stopped as error:
        return _complain(str(error), 130)
    except (KeyboardInterrupt, typer.Abort):
        return _complain("interrupted", 130)
    except BrokenPipeError:  # nobody reads any more, as after `| head`
        discard_output()
        return 1
    except Unwritable as error:
        discard_output()
        if error.errno in FULL:
            return _complain(f"the disk is full (standard output: {error.strerror}): {FREE}", 2)
        return _complain(f"standard output cannot be written to: {error.strerror}; a finished run is kept", 1)
    except OSError as error:
        if error.errno in FULL:
            return _complain(f"the disk is full ({error}): {FREE}", 2)
        if what := ran_out(error):
            return _complain(f"{what}{_said(error)}: {ROOM}", 2)
        if error.strerror is None:  # of no system call
            _tell(f"{type(error).__name__}: {error}")
            raise
        where = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
        return _complain(f"{where}{error.strerror}", 2 if where and error.errno in WRONG_PLACE else 1)
    except Diverged as error:
        return _complain(str(error), 1)
    except Exception as error:
        if what := ran_out(error):
            return _complain(f"{what}{_said(error)}: {ROOM}", 2)
        _tell(f"{type(error).__name__}: {error}")
        raise


def _said(error: Exception) -> str:
    """The first line of what an error says, in brackets: how much was asked for, or of which library."""
    first, _, _ = str(error).strip().partition("\n")
    return f" ({first[:200]})" if first else ""


def _complain(text: str, status: int) -> int:
    line = visible(" ".join(text.splitlines()))
    _tell(line)
    # On Linux names are bytes: those that are not UTF-8 are shown as they are typed.
    shown = line.encode(errors="surrogateescape")
    try:
        sys.stderr.flush()
        sys.stderr.buffer.write(b"newfound: " + shown + b"\n")
        sys.stderr.flush()
    except (OSError, ValueError):  # nobody to tell
        pass
    return status


def _tell(line: str) -> None:
    """With --json, say on standard output too what went wrong."""
    words = sys.argv[1:]
    if "--json" not in (words[: words.index("--")] if "--" in words else words):
        return
    try:
        sys.stdout.write(json.dumps({"error": line}) + "\n")
        sys.stdout.flush()
    except (OSError, ValueError):
        discard_output()
