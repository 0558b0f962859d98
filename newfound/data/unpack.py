"""One folder out of a .tar.gz or .zip archive, which is not trusted."""

from __future__ import annotations

import errno
import glob
import gzip
import os
import re
import shutil
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO, NoReturn

from newfound.data.transfer import megabytes
from newfound.errors import UserError
from newfound.files import clear_unfinished, held_folder, opened_folder
from newfound.progress import Progress, Reporter

MOST_BYTES = 2_000_000_000
MOST_MEMBERS = 200_000
PIECE = 1 << 18
HEADERS = 2048
"""Bytes of a tar archive, beyond its content, that are granted to each member for its headers and padding."""

MOST_PARTS = 32
"""Folders in folders; deeper ones could not even be removed again by a recursive function."""

DAMAGED = (
    *(tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, EOFError),
    *(struct.error, ValueError, OverflowError, NotImplementedError),
)
"""What the standard library may raise when it reads a damaged archive; the last is zipfile's word for a compression
that it does not know."""

UNFIT = {
    errno.EEXIST: "an earlier member has its name, or that of its folder",
    errno.ENAMETOOLONG: "its name is too long",
    errno.EILSEQ: "its name cannot be a file's",
    errno.EINVAL: "it is at an impossible place in the archive, or has an impossible name",
}
"""Why the system does not make a file of a member."""


@dataclass(frozen=True)
class Member:
    """What an archive says of one member; ``refused`` is why it is not taken, if it is neither file nor folder."""

    name: str
    is_folder: bool
    size: int
    open: Callable[[], IO[bytes] | None]
    refused: str = ""


def unpack(
    archive: Path,
    folder: str,
    to: Path,
    *,
    reporter: Reporter,
    most_bytes: int = MOST_BYTES,
    most_members: int = MOST_MEMBERS,
) -> Path:
    """The folder ``to``/``folder``, as the archive has it; other folders of the archive are left out.

    It appears by one rename once everything has been unpacked. A member that is a link or a device, whose name leads
    out of the folder or comes twice, or with which there are more bytes or members than allowed, refuses the archive.
    Owners, times and permissions are not taken from the archive.
    """
    destination = to / folder
    require_free(destination)
    clear_unfinished(to, glob.escape(folder))
    with opened_folder(to) as above, held_folder(destination, above) as (name, _):
        temporary = to / name
        try:
            with archive.open("rb") as file:
                task = reporter.task(f"unpacking {archive.name}", megabytes(archive.stat().st_size), "MB")
                with task as shown:
                    _Unpacking(archive, file, shown, folder, temporary, most_bytes, most_members).run()
            if not (temporary / folder).is_dir():
                raise UserError(f"{str(archive)!r} is not used: it has no folder {folder!r}")
            require_free(destination)
            os.rename(temporary / folder, destination)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        os.fsync(above)
    return destination


def require_free(destination: Path) -> None:
    """Stop if something is there already: nothing of anybody's is overwritten."""
    if os.path.lexists(destination):
        raise UserError(f"{str(destination)!r} exists already: move it elsewhere, or remove it, and call again")


class _Unpacking:
    """One archive being unpacked into a folder that is there and empty."""

    def __init__(
        self, archive: Path, file: BinaryIO, task: Progress, folder: str, into: Path, most_bytes: int, most_members: int
    ) -> None:
        self.archive, self.file, self.task, self.folder, self.into = archive, file, task, folder, into
        self.most_bytes, self.most_members = most_bytes, most_members
        self.bytes_left = most_bytes

    def run(self) -> None:
        """Unpack it all."""
        listed = _zip_members if self.archive.suffix == ".zip" else _tar_members
        most = self.most_bytes + HEADERS * self.most_members + tarfile.RECORDSIZE
        try:
            with closing(listed(self.file, most)) as members:
                for count, member in enumerate(members, start=1):
                    if count > self.most_members:
                        self.refuse(member, f"the archive has more than {self.most_members:,} members")
                    self.take(member)
                    self.show(self.file.tell())
        except UserError:
            raise
        except _TooLong:
            raise UserError(f"{str(self.archive)!r} is not used: {self.too_large}") from None
        except DAMAGED as error:
            raise UserError(
                f"{str(self.archive)!r} is damaged, or no archive of its kind ({error or type(error).__name__}): "
                "remove it and call again"
            ) from None
        self.show(self.archive.stat().st_size)

    def take(self, member: Member) -> None:
        """Check a member, and unpack it if it belongs to the folder."""
        if reason := member.refused or _unsafe(member.name):
            self.refuse(member, reason)
        parts = PurePosixPath(member.name).parts
        if not parts or parts[0] != self.folder:
            return
        path = self.into.joinpath(*parts)
        try:
            _make_folder(path if member.is_folder else path.parent)
            if not member.is_folder:
                self.copy(member, path)
        except OSError as error:
            if error.errno in UNFIT:
                self.refuse(member, UNFIT[error.errno])
            raise

    def copy(self, member: Member, path: Path) -> None:
        """The bytes of a member in a new file; what they are counts, not what the archive says they are."""
        if member.size > self.bytes_left:  # no need to fill the disk first
            self.refuse(member, self.too_large)
        source = member.open()
        assert source is not None
        with source, open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o644)) as file:
            while some := source.read(PIECE):
                self.bytes_left -= len(some)
                if self.bytes_left < 0:
                    self.refuse(member, self.too_large)
                file.write(some)
                self.show(self.file.tell())

    @property
    def too_large(self) -> str:
        return f"the archive would unpack to more than {self.most_bytes:,} bytes"

    def refuse(self, member: Member, reason: str) -> NoReturn:
        raise UserError(f"{str(self.archive)!r} is not used because of its member {member.name!r}: {reason}")

    def show(self, position: int) -> None:
        self.task.advance(max(0, megabytes(position) - self.task.done))


def _make_folder(path: Path) -> None:
    """The folder and those above it, of which there is at least one."""
    if not path.is_dir():
        _make_folder(path.parent)
        path.mkdir(mode=0o755)


def _unsafe(name: str) -> str:
    """Why a member of this name is not taken, wherever it would land on whatever system; empty if it may be."""
    if "\0" in name or "\\" in name:
        return "its name holds a character that no name here may hold"
    if name.startswith("/") or re.match("[A-Za-z]:", name):
        return "its name is an absolute path"
    if ".." in name.split("/"):
        return "its name leads out of the folder"
    if name.count("/") > MOST_PARTS:
        return "its name has too many parts"
    return ""


class _TooLong(Exception):
    """More was read of a compressed file than allowed."""


class _Limited:
    """The first ``most`` bytes of a file; a _TooLong if it has more."""

    def __init__(self, file: gzip.GzipFile, most: int) -> None:
        self.file, self.left = file, most

    def read(self, size: int) -> bytes:
        some = self.file.read(size)
        self.left -= len(some)
        if self.left < 0:
            raise _TooLong
        return some


def _tar_members(file: BinaryIO, most: int) -> Generator[Member, None, None]:
    """The members of a .tar.gz file in their order; each has to be read before the next is asked for."""
    with gzip.open(file, "rb") as inside:
        # The limit is for what tarfile reads by itself: content that is skipped, and headers of any length.
        limited = _Limited(inside, most)
        with tarfile.open(fileobj=limited, mode="r|", bufsize=PIECE) as tar:  # type: ignore[call-overload]
            for info in tar:
                if info.issym() or info.islnk():
                    refused = "it is a link"
                elif info.issparse() or not (info.isreg() or info.isdir()):
                    refused = "it is neither a plain file nor a folder"
                else:
                    refused = ""
                yield Member(info.name, info.isdir(), info.size, partial(tar.extractfile, info), refused)


def _zip_members(file: BinaryIO, most: int) -> Generator[Member, None, None]:
    """The members of a .zip file; ``most`` is not needed, as nothing is read that is not unpacked."""
    with zipfile.ZipFile(file) as archive:
        for info in archive.infolist():
            kind = stat.S_IFMT(info.external_attr >> 16)
            if kind == stat.S_IFLNK:
                refused = "it is a link"
            elif kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                refused = "it is neither a plain file nor a folder"
            elif info.flag_bits & 1:
                refused = "it is encrypted"
            elif info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                refused = "it is compressed in an unusual way"
            else:
                refused = ""
            # zipfile cuts filename at a NUL and, on some systems, turns backslashes around.
            name = info.orig_filename
            yield Member(name, name.endswith("/"), info.file_size, partial(archive.open, info), refused)
