"""A command in a process of its own that meets one fault: before its nth operation on files below a folder it is
killed, or the disk has an error, or is full from then on; or its nth file there cannot be read."""

import builtins
import errno
import io
import os
import signal
import sys
import time
import traceback

FAULTS = ("kill", "EIO", "ENOSPC", "EIO on reading")
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
EVENTS = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate"}
LONGEST = 120
"""Seconds after which a command hangs."""


class Counted(io.FileIO):
    """A file that is written to, and whose writes are operations too."""

    def write(self, data):
        operation("write")
        return super().write(data)

    def truncate(self, size=None):
        operation("write")
        return super().truncate(size)


class State:
    root, at, fault, done, read = "", None, None, 0, 0


def operation(kind):
    """One more operation on a file; the fault comes before it."""
    number, State.done = State.done, State.done + 1
    if State.at is None or number < State.at or State.fault == "EIO on reading":
        return
    if State.fault == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if State.fault == "EIO" and number == State.at:
        raise OSError(errno.EIO, os.strerror(errno.EIO))
    if State.fault == "ENOSPC" and kind in ("open", "os.mkdir", "write", "fsync"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def reading():
    """One more file that is opened to be read."""
    number, State.read = State.read, State.read + 1
    if State.fault == "EIO on reading" and number == State.at:
        raise OSError(errno.EIO, os.strerror(errno.EIO))


def _within(path):
    """Whether an operation on such a path counts; relative names are those below a handle."""
    if not isinstance(path, str | bytes | os.PathLike):
        return False
    path = os.fsdecode(path)
    return not path.startswith("/") or path.startswith(State.root)


def _hook(event, args):
    if event in EVENTS and _within(args[0]):
        operation(event)
    if event == "open" and _within(args[0]) and isinstance(args[2], int):
        operation("open") if args[2] & WRITES else reading()


def _install():
    real_fsync, real_fdopen, real_open = os.fsync, os.fdopen, io.open

    def fsync(handle):
        operation("fsync")
        real_fsync(handle)

    def fdopen(handle, mode="r", *more, **options):
        return io.BufferedWriter(Counted(handle, "wb")) if mode == "wb" else real_fdopen(handle, mode, *more, **options)

    def opened(file, mode="r", buffering=-1, *more, opener=None, **options):
        if mode[0] not in "wax" or "+" in mode or not _within(file):
            return real_open(file, mode, buffering, *more, opener=opener, **options)
        raw = Counted(file, mode.replace("t", "").rstrip("b") + "b", opener=opener)
        raw = io.BufferedWriter(raw, buffering if buffering > 1 else io.DEFAULT_BUFFER_SIZE)
        names = ("encoding", "errors", "newline")
        return raw if "b" in mode else io.TextIOWrapper(raw, **{name: options.get(name) for name in names})

    from newfound import files

    exchange = files._exchange

    def exchanged(*names):
        operation("os.rename")
        return exchange(*names)

    os.fsync, os.fdopen, files._exchange = fsync, fdopen, exchanged
    builtins.open = io.open = opened
    sys.addaudithook(_hook)


def run(call, root, at=None, fault=None):
    """Run ``call`` in a child: its status, what it wrote on standard error, and how many operations there were and how
    many files were read."""
    told, counted = (os.path.join(os.path.dirname(root), name) for name in ("told", "counted"))
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        status = 98
        try:
            error = os.open(told, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
            os.dup2(error, 2)
            os.dup2(error, 1)
            sys.stderr = io.TextIOWrapper(io.FileIO(2, "w", closefd=False), write_through=True)
            sys.stdout = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), write_through=True)
            State.root, State.at, State.fault, State.done, State.read = str(root), at, fault, 0, 0
            _install()
            status = call()
        except BaseException:
            traceback.print_exc()
        finally:
            State.at = None
            with open(counted, "w") as file:
                file.write(f"{State.done} {State.read}")
            os._exit(status or 0)
    ended = time.monotonic() + LONGEST
    while time.monotonic() < ended:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            break
        time.sleep(0.005)
    else:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        return "hangs", "", (0, 0)
    with open(told, errors="replace") as file:
        text = file.read()
    numbers = (0, 0)
    if os.WIFEXITED(status):
        with open(counted) as file:
            numbers = tuple(map(int, file.read().split()))
    return os.waitstatus_to_exitcode(status), text, numbers
