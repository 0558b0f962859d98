"""The way in: every failure of a command becomes one line and an exit status."""

from __future__ import annotations

import errno
import os
import signal
import sys

import typer

from newfound.cli.app import Stopped
from newfound.cli.commands import app
from newfound.errors import Diverged, UserError

WRONG_CALL: tuple[type[BaseException], ...] = typer.BadParameter.__mro__[1:3]
"""UsageError and ClickException, wherever this version of typer keeps them."""

WRONG_PLACE = (
    errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG, errno.ELOOP,
)  # fmt: skip
"""What the file system says of a path that was given wrongly."""


def main() -> None:
    """Run the command line; every failure is one line and an exit status (0, 1, 2 or 130)."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(status())


def status() -> int:
    """Run the command that the arguments name; gives the exit status."""
    try:
        found = int(app(sys.argv[1:] or ["--help"], standalone_mode=False) or 0)
        sys.stdout.flush()  # here, where a full disk is still a sentence
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
    except BrokenPipeError:
        sys.stderr.close()
        return 1
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            remedy = "free some space and call again; a run that had begun goes on with `newfound resume RUN`"
            return _complain(f"the disk is full ({error}): {remedy}", 2)
        if error.strerror is None:  # of no system call
            raise
        where = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
        return _complain(f"{where}{error.strerror}", 2 if where and error.errno in WRONG_PLACE else 1)
    except Diverged as error:
        return _complain(str(error), 1)


def _complain(text: str, status: int) -> int:
    line = " ".join(text.splitlines())
    sys.stderr.buffer.write(f"newfound: {line}\n".encode(errors="surrogateescape"))
    sys.stderr.flush()
    return status
