"""What a folder holds, in the order of names."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from newfound.errors import UserError


def folders_in(folder: Path | str) -> list[str]:
    """The names of the folders in a folder, sorted, without the hidden ones."""
    return _names(folder, os.DirEntry.is_dir)


def files_in(folder: Path | str) -> list[str]:
    """The names of the files in a folder, sorted, without the hidden ones."""
    return _names(folder, os.DirEntry.is_file)


def _names(folder: Path | str, wanted: Callable[[os.DirEntry[str]], bool]) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if not entry.name.startswith(".") and wanted(entry))
    except OSError as error:
        raise UserError(f"the folder {str(folder)!r} cannot be opened: {(error.strerror or '').lower()}") from None
