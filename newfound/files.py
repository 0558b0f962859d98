"""Writing files so that a crash leaves either the old one or the new one, never half of one, and no link is followed.

What is being written is called .NAME.TOKEN.writing, and what it replaces .NAME.TOKEN.retired, with a random TOKEN. Who
writes holds a lock (flock) on it, which goes with the process: what nobody holds is left over, whatever its age.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fnmatch
import glob
import json
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from newfound.errors import UserError

TOKEN = 8
"""Hexadecimal digits in the name of a temporary file."""
TEMPORARY = re.compile(rf"\.(?P<name>.+)\.[0-9a-f]{{{TOKEN}}}\.(?P<ending>writing|retired)", re.DOTALL)

DISK_FULL = (errno.ENOSPC, errno.EDQUOT)

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


@contextlib.contextmanager
def writing_to(place: Path, option: str) -> Iterator[None]:
    """While entered, what the file system refuses of a place that an ``option`` names is a sentence with that name,
    and without that of a temporary file. A full disk remains what it is, and so does what is wrong elsewhere."""
    try:
        yield
    except OSError as error:
        if error.errno in DISK_FULL or _is_elsewhere(error.filename, place.absolute()):
            raise
        raise UserError(f"cannot write to {place}: {error.strerror or error}; choose another {option}") from None


def _is_elsewhere(path: str | bytes | int | None, place: Path) -> bool:
    """Whether a path is neither beside ``place``, or below that, nor one of the folders above it."""
    if not isinstance(path, str | bytes) or not os.path.isabs(path):
        return False
    found = Path(os.fsdecode(path))
    return not (found.is_relative_to(place.parent) or place.is_relative_to(found))


def temporary_name(path: Path, ending: str = "writing") -> Path:
    """A name beside ``path`` that nobody can guess, and that ``clear_unfinished`` knows."""
    return path.with_name(f".{path.name}.{secrets.token_hex(TOKEN // 2)}.{ending}")


@contextlib.contextmanager
def opened_folder(folder: Path, within: Path | None = None) -> Iterator[int]:
    """A handle of a folder. Where it lies ``within`` another, no link is followed on the way from there."""
    handle = os.open(within or folder, FOLDER)
    try:
        for part in folder.relative_to(within).parts if within else ():
            inner = os.open(part, FOLDER | os.O_NOFOLLOW, dir_fd=handle)
            os.close(handle)
            handle = inner
        yield handle
    finally:
        os.close(handle)


def open_regular(path: Path, flags: int) -> int:
    """A handle of a regular file to write to: no link is followed, and nothing waits where there is a FIFO."""
    try:
        handle = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    except OSError as error:
        if error.errno != errno.ENXIO:  # a FIFO that nobody reads
            raise
        raise OSError(errno.EINVAL, "not a regular file", str(path)) from None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return handle


def try_lock(handle: int) -> bool | None:
    """Whether nobody else holds the lock of an open file or folder, which is then held until it is closed; None where
    the file system has no locks."""
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _own(handle: int, name: str, folder: int) -> bool:
    """Lock what was just made; False if somebody cleared it away before that."""
    if try_lock(handle) is False:
        return False
    try:
        return os.path.samestat(os.fstat(handle), os.stat(name, dir_fd=folder, follow_symlinks=False))
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def new_file(path: Path, within: Path | None = None) -> Iterator[BinaryIO]:
    """A file to write to, which becomes ``path`` by one rename at the end; if writing fails it is removed.

    What a killed process left of it goes. ``within`` is as in ``opened_folder``.
    """
    clear_unfinished(path.parent, glob.escape(path.name), within)
    with opened_folder(path.parent, within) as folder:
        while True:
            temporary = temporary_name(path).name
            handle = os.open(
                temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666, dir_fd=folder
            )
            if _own(handle, temporary, folder):
                break
            os.close(handle)
        try:
            with os.fdopen(handle, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
                os.replace(temporary, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
            raise
        os.fsync(folder)


def clear_unfinished(place: Path, names: str = "*", within: Path | None = None) -> None:
    """Remove what processes that were killed left half written of such names in a folder: what nobody holds a lock on.
    What was to be replaced, and by then was not, is the only one there is: it gets its name back. Links stay, and so
    does everything where the file system has no locks."""
    try:
        with opened_folder(place, within) as folder:
            for left in sorted(os.listdir(folder)):
                found = TEMPORARY.fullmatch(left)
                if found and fnmatch.fnmatchcase(found["name"], names):
                    with contextlib.suppress(OSError):  # gone meanwhile, or not ours to remove
                        _clear(folder, left, found["name"], retired=found["ending"] == "retired")
    except (FileNotFoundError, NotADirectoryError):
        return


def _clear(folder: int, left: str, name: str, *, retired: bool) -> None:
    kind = os.stat(left, dir_fd=folder, follow_symlinks=False).st_mode
    if not (stat.S_ISDIR(kind) or stat.S_ISREG(kind)):
        return
    handle = os.open(left, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    try:
        if not try_lock(handle):
            return
        if retired and not _exists(name, folder):
            os.rename(left, name, src_dir_fd=folder, dst_dir_fd=folder)
        elif stat.S_ISDIR(kind):
            shutil.rmtree(left, dir_fd=folder)
        else:
            os.unlink(left, dir_fd=folder)
    finally:
        os.close(handle)


def _exists(name: str, folder: int) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def write_bytes(path: Path, content: bytes, within: Path | None = None) -> None:
    """Replace ``path`` by ``content`` in one rename."""
    with new_file(path, within) as file:
        file.write(content)


def write_text(path: Path, text: str) -> None:
    """Replace ``path`` by ``text`` in one rename; names that are not UTF-8 keep their bytes."""
    write_bytes(path, encoded(text))


def encoded(text: str) -> bytes:
    """The text as UTF-8; names that are not UTF-8 keep their bytes."""
    return text.encode("utf-8", errors="surrogateescape")


def as_json(content: Any) -> bytes:
    """Values as the JSON text of a file."""
    return encoded(json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def write_json(path: Path, content: Any) -> None:
    write_bytes(path, as_json(content))


def _exchange(folder: int, one: str, other: str) -> bool:
    """Let two names in a folder change places in one step; False where the system cannot."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):
        return False
    done: int = rename(folder, os.fsencode(one), folder, os.fsencode(other), 2)  # RENAME_EXCHANGE
    return done == 0


def _replace(folder: int, new: str, path: Path) -> None:
    """Rename a folder to ``path``, where an earlier one may be: in one step where the system has one that exchanges
    two names; if it fails, the earlier one is put back."""
    name, retired = path.name, new
    if not _exists(name, folder):
        try:
            os.rename(new, name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):  # another process was quicker
                raise
        else:
            return
    if not _exchange(folder, new, name):
        retired = temporary_name(path, "retired").name
        os.rename(name, retired, src_dir_fd=folder, dst_dir_fd=folder)
        try:
            os.rename(new, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            os.rename(retired, name, src_dir_fd=folder, dst_dir_fd=folder)
            raise
    if stat.S_ISDIR(os.stat(retired, dir_fd=folder, follow_symlinks=False).st_mode):
        shutil.rmtree(retired, ignore_errors=True, dir_fd=folder)
    else:
        os.unlink(retired, dir_fd=folder)


def make_folder(folder: Path) -> None:
    """Make a folder inside that of a run, unless it is there; stop where something else stands in its place."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise UserError(
            f"{folder} is no folder, and this run writes there: move it away, and go on with "
            f"`newfound resume {folder.parent}`"
        ) from None


@contextlib.contextmanager
def new_directory(path: Path, within: Path | None = None) -> Iterator[Path]:
    """A folder to fill, which becomes ``path`` by one rename once its files have reached the disk.

    If filling it fails it is removed, and an earlier ``path`` stays as it was. ``within`` is as in ``opened_folder``.
    """
    if within is None:
        path.parent.mkdir(parents=True, exist_ok=True)
    clear_unfinished(path.parent, glob.escape(path.name), within)
    with opened_folder(path.parent, within) as folder, held_folder(path, folder) as (temporary, handle):
        try:
            yield path.with_name(temporary)
            for name in os.listdir(handle):
                sync(name, handle)
            os.fsync(handle)
            _replace(folder, temporary, path)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True, dir_fd=folder)
            raise
        os.fsync(folder)


@contextlib.contextmanager
def held_folder(path: Path, folder: int) -> Iterator[tuple[str, int]]:
    """A new folder with the lock held: its name, and a handle."""
    while True:
        temporary = temporary_name(path).name
        os.mkdir(temporary, dir_fd=folder)
        try:
            handle = os.open(temporary, FOLDER | os.O_NOFOLLOW, dir_fd=folder)
        except FileNotFoundError:  # cleared away before it was locked
            continue
        except OSError:
            with contextlib.suppress(OSError):
                os.rmdir(temporary, dir_fd=folder)
            raise
        if _own(handle, temporary, folder):
            break
        os.close(handle)
    try:
        yield temporary, handle
    finally:
        os.close(handle)


def sync(path: Path | str, folder: int | None = None) -> None:
    """Make a file's content, or the names in a folder, survive a power failure."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def remove_own(folder: Path, names: set[str], within: Path) -> None:
    """Remove a folder that holds files of these names and nothing else; any other stays as it is."""
    with contextlib.suppress(OSError):
        with opened_folder(folder, within) as handle:
            states = {name: os.stat(name, dir_fd=handle, follow_symlinks=False) for name in os.listdir(handle)}
            if not states.keys() <= names or not all(stat.S_ISREG(state.st_mode) for state in states.values()):
                return
            for name in states:
                os.unlink(name, dir_fd=handle)
        with opened_folder(folder.parent, within) as above:
            os.rmdir(folder.name, dir_fd=above)
