"""The data sets of the paper, from their publishers' servers."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from newfound.data.transfer import Unobtainable, discard, fetch
from newfound.data.unpack import unpack
from newfound.errors import UserError, did_you_mean
from newfound.files import writing_to
from newfound.progress import Reporter


@dataclass(frozen=True)
class Archive:
    """A file that a publisher offers: where it is, what its bytes add up to, and what is in it."""

    address: str
    md5: str
    folder: str
    """The folder in it."""
    members: Mapping[str, int]
    """How many files of each pattern the folder has if it is whole."""

    @property
    def file(self) -> str:
        return PurePosixPath(urlsplit(self.address).path).name


TORONTO = "https://www.cs.toronto.edu/~kriz"
OMNIGLOT = "https://raw.githubusercontent.com/brendenlake/omniglot/master/python"
DRAWINGS = "*/character*/*.png"

ARCHIVES: dict[str, tuple[Archive, ...]] = {
    "cifar10": (
        Archive(
            f"{TORONTO}/cifar-10-python.tar.gz",
            "c58f30108f718f92721af3b95e74349a",
            "cifar-10-batches-py",
            {"data_batch_[1-5]": 5, "test_batch": 1, "batches.meta": 1},
        ),
    ),
    "cifar100": (
        Archive(
            f"{TORONTO}/cifar-100-python.tar.gz",
            "eb9058c3a382ffc7106e4002c42a8d85",
            "cifar-100-python",
            {"train": 1, "test": 1, "meta": 1},
        ),
    ),
    "omniglot": (
        Archive(
            f"{OMNIGLOT}/images_background.zip",
            "68d2efa1b9178cc56df9314c21c6e718",
            "images_background",
            {DRAWINGS: 964 * 20},
        ),
        Archive(
            f"{OMNIGLOT}/images_evaluation.zip",
            "6b91aef0f799c5bb55b94e3f2daec811",
            "images_evaluation",
            {DRAWINGS: 659 * 20},
        ),
    ),
}

PARTS_OF = {
    "cifar10-rehearsal": "cifar10",
    "cifar100-50": "cifar100",
    "cifar100-rehearsal": "cifar100",
    "omniglot-rehearsal": "omniglot",
}
"""Data sets that are other splits of one of the above."""

ON_REQUEST = ("imagenet", "imagenet-a", "imagenet-b", "imagenet-c")


def get_data(
    name: str, to: Path, *, reporter: Reporter, addresses: Mapping[str, tuple[Archive, ...]] | None = None
) -> list[Path]:
    """The folders of a data set in ``to``, downloaded and unpacked unless they are there already.

    An archive that somebody put into ``to`` is used instead of downloading it. A download that breaks off, or is
    interrupted, is gone on with by the next call. ``addresses`` is a table to use instead of ``ARCHIVES``.
    """
    archives = _archives_of(name, ARCHIVES if addresses is None else addresses)
    with _reserved(to):
        missing = [archive for archive in archives if not _is_whole(archive, to)]
        if missing and not os.access(to, os.W_OK | os.X_OK):
            raise UserError(f"nothing can be written into {str(to)!r}: name a folder of your own with --to")
        for archive in archives:
            if archive in missing:
                _get(archive, to, reporter)
            else:
                reporter.say(f"{to / archive.folder} is there already")
    return [to / archive.folder for archive in archives]


def _archives_of(name: str, table: Mapping[str, tuple[Archive, ...]]) -> tuple[Archive, ...]:
    if name in ON_REQUEST:
        raise UserError(
            f"{name} cannot be downloaded for you: request ILSVRC-2012 from https://image-net.org, and unpack it into "
            "a folder train/ and a folder val/, each with one folder of images a class, named by its WordNet id "
            "(n01440764, …)"
        )
    name_of_whole = PARTS_OF.get(name, name)
    if name_of_whole not in table:
        parts = [part for part, whole in PARTS_OF.items() if whole in table]
        raise UserError(f"there is no data set {name!r} to get{did_you_mean(name, [*table, *parts])}")
    return table[name_of_whole]


@contextlib.contextmanager
def _reserved(to: Path) -> Iterator[None]:
    """The folder ``to``, made if need be, with no other process getting data into it."""
    import fcntl

    with writing_to(to, "--to"):
        to.mkdir(parents=True, exist_ok=True)
        handle = os.open(to, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(f"another process is getting data into {str(to)!r}: wait for it to end") from None
        except OSError:  # some network file systems lock no folders; a mixed-up file would fail its checksum
            pass
        yield
    finally:
        os.close(handle)


def _is_whole(archive: Archive, to: Path) -> bool:
    """Whether the archive's folder is in ``to``; one that is incomplete is an error, as it is not ours to replace."""
    folder = to / archive.folder
    if not os.path.lexists(folder):
        return False
    for pattern, count in archive.members.items():
        found = sum(1 for _ in folder.glob(pattern))
        if found < count:
            raise UserError(
                f"{str(folder)!r} exists but is not whole (of {pattern} there should be {count:,}, there are "
                f"{found:,}): move it elsewhere, or remove it, and call again"
            )
    return True


def _get(archive: Archive, to: Path, reporter: Reporter) -> None:
    """Unpack the archive that is in ``to``, or was downloaded by an earlier call, or is downloaded now."""
    by_hand = to / archive.file
    if by_hand.is_file():
        reporter.say(f"using {by_hand}")
        if (found := _md5(by_hand)) != archive.md5:
            raise UserError(
                f"{str(by_hand)!r} is not the file its publisher offers: its MD5 is {found}, expected was "
                f"{archive.md5}; remove it, or put a whole copy in its place, and call again"
            )
        unpack(by_hand, archive.folder, to, reporter=reporter)
        return
    workplace = to / ".download"
    try:
        downloaded = _download(archive, to, workplace, reporter)
        try:
            unpack(downloaded, archive.folder, to, reporter=reporter)
        except UserError:
            downloaded.unlink()
            raise
        downloaded.unlink()
    finally:
        with contextlib.suppress(OSError):  # a part to go on with is in it
            workplace.rmdir()


def _download(archive: Archive, to: Path, workplace: Path, reporter: Reporter) -> Path:
    """The archive with the right checksum, in ``workplace``."""
    with writing_to(to, "--to"):
        workplace.mkdir(exist_ok=True)
    whole, part = workplace / archive.file, workplace / f"{archive.file}.part"
    if whole.is_file() and _md5(whole) == archive.md5:  # the disk was full while it was being unpacked, say
        return whole
    try:
        fetch(archive.address, part, title=f"downloading {archive.file}", reporter=reporter)
    except Unobtainable as error:
        kept = " (what has arrived is kept)" if part.exists() else ""
        raise UserError(
            f"{archive.address} cannot be downloaded: {error}. Call again later{kept}, or download the file elsewhere, "
            f"put it into {str(to)!r} as {archive.file!r}, and call again"
        ) from None
    if (found := _md5(part)) != archive.md5:
        discard(part)
        raise UserError(
            f"{archive.address} gave a file other than expected: its MD5 is {found}, expected was {archive.md5}; "
            "the file was removed, try again"
        )
    os.replace(part, whole)
    discard(part)
    return whole


def _md5(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
