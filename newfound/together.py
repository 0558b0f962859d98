"""Several files of a folder that change together, or not at all, whatever ends the process that changes them.

What they are to become is written beside them first. Then one rename makes the journal, which says so, and from there
on the change will be ended: at once, or by the next process that takes the folder's lock.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Collection, Mapping
from pathlib import Path

from newfound.files import TEMPORARY, open_regular, opened_folder, temporary_name, write_json
from newfound.strangers import SMALL, parse_json, read_small

JOURNAL = ".change.json"


def change_together(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Replace files of a folder, whose lock is held, by what is given for their names."""
    new_of = {name: temporary_name(folder / name) for name in contents}
    try:
        for name, path in new_of.items():
            with open(open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
                file.write(contents[name])
                file.flush()
                os.fsync(file.fileno())
        write_json(folder / JOURNAL, {name: path.name for name, path in new_of.items()})
    except BaseException:
        if not os.path.lexists(folder / JOURNAL):
            for path in new_of.values():
                with contextlib.suppress(OSError):
                    path.unlink(missing_ok=True)
        raise
    finish_change(folder, contents)


def finish_change(folder: Path, allowed: Collection[str]) -> None:
    """End the change that the journal tells of, if there is one; files that are not ``allowed`` are left alone."""
    try:
        content = parse_json(read_small(folder / JOURNAL, SMALL))
    except (OSError, ValueError):
        return
    with opened_folder(folder) as handle:
        for name, new in content.items() if isinstance(content, dict) else ():
            found = TEMPORARY.fullmatch(new) if isinstance(new, str) and os.sep not in new else None
            if name not in allowed or not found or found["name"] != name:
                continue
            with contextlib.suppress(FileNotFoundError):  # renamed already
                if stat.S_ISREG(os.stat(new, dir_fd=handle, follow_symlinks=False).st_mode):
                    os.replace(new, name, src_dir_fd=handle, dst_dir_fd=handle)
        os.fsync(handle)
        os.unlink(JOURNAL, dir_fd=handle)
