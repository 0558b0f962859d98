"""A command in a process of its own that meets one fault: before its nth operation on files below a folder it is
killed, or the disk has an error, or is full from then on."""

import errno
import io
import os
import signal
import sys
import time
import traceback

FAULTS = ("kill", "EIO", "ENOSPC")
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
EVENTS = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate"}
LONGEST = 120
"""Seconds after which a command hangs."""


class Counted(io.FileIO):
    """A file whose writes are operations too."""

    def write(self, data):
        operation("write")
        return super().write(data)

    def truncate(self, size=None):
        operation("write")
        return super().truncate(size)


class State:
    root, at, fault, done, raised = "", None, None, 0, False


def operation(kind):
    """One more operation on a file; the fault comes before it."""
    number, State.done = State.done, State.done + 1
    if State.at is None or number < State.at:
        return
    if State.fault == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if State.fault == "EIO" and number == State.at:
        raise OSError(errno.EIO, os.strerror(errno.EIO))
    if State.fault == "ENOSPC" and kind in ("open", "os.mkdir", "write", "fsync"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _hook(event, args):
    if event not in EVENTS and event != "open":
        return
    path = args[0]
    if event == "open" and not (isinstance(args[2], int) and args[2] & WRITES):
        return
    if isinstance(path, str | bytes):
        path = os.fsdecode(path)
        if not path.startswith("/") or path.startswith(State.root):  # relative names are those below a handle
            operation(event)


def _install():
    real_fsync, real_fdopen = os.fsync, os.fdopen

    def fsync(handle):
        operation("fsync")
        real_fsync(handle)

    def fdopen(handle, mode="r", *more, **options):
        return io.BufferedWriter(Counted(handle, "wb")) if mode == "wb" else real_fdopen(handle, mode, *more, **options)

    from newfound import files

    exchange = files._exchange

    def exchanged(*names):
        operation("os.rename")
        return exchange(*names)

    os.fsync, os.fdopen, files._exchange = fsync, fdopen, exchanged
    sys.addaudithook(_hook)


def run(call, root, at=None, fault=None):
    """Run ``call`` in a child: its status, what it wrote on standard error, and how many operations there were."""
    told, counted = os.path.join(root, "..", "told"), os.path.join(root, "..", "counted")
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
            State.root, State.at, State.fault, State.done = str(root), at, fault, 0
            _install()
            status = call()
        except BaseException:
            traceback.print_exc()
        finally:
            State.at = None
            with open(counted, "w") as file:
                file.write(str(State.done))
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
        return "hangs", "", 0
    with open(told, errors="replace") as file:
        text = file.read()
    number = 0
    if os.WIFEXITED(status):
        with open(counted) as file:
            number = int(file.read())
    return os.waitstatus_to_exitcode(status), text, number
