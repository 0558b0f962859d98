"""Telling one's own runs from those of strangers: a mark that only this user can make, with a key that never leaves
the user's folder.

A run says where its images are. Who made it may be believed; a run from somebody else may name any file of this user's.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import secrets
from pathlib import Path
from typing import Any

from newfound.files import new_file, opened_folder
from newfound.strangers import read_small

BYTES = 32


def key_file() -> Path:
    """Where the key is kept: in the user's folder for state."""
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "newfound" / "key"


def mark(content: Any) -> str | None:
    """The mark of plain values; None where no key can be kept."""
    key = _read_key() or _make_key()
    return _mark(content, key) if key else None


def is_ours(content: Any, found: Any) -> bool:
    """Whether this user has marked the same values so."""
    key = _read_key()
    if not key or not isinstance(found, str) or not found.isascii():
        return False
    return hmac.compare_digest(_mark(content, key), found)


def _mark(content: Any, key: bytes) -> str:
    return hmac.new(key, json.dumps(content, sort_keys=True).encode(), hashlib.sha256).hexdigest()


def _read_key() -> bytes:
    try:
        key = read_small(key_file(), BYTES)
    except (OSError, RuntimeError):  # there is none, or the user has no folder
        return b""
    return key if len(key) == BYTES else b""


def _make_key() -> bytes:
    """A new key, where there is none: one that cannot be read now is not lost, and two processes keep one of theirs, if
    the file system has locks."""
    import fcntl

    try:
        path = key_file()
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with opened_folder(path.parent) as folder:
            with contextlib.suppress(OSError):
                fcntl.flock(folder, fcntl.LOCK_EX)
            if not path.exists() or path.stat().st_size != BYTES:
                with new_file(path) as file:
                    os.fchmod(file.fileno(), 0o600)
                    file.write(secrets.token_bytes(BYTES))
    except (OSError, RuntimeError):
        return b""
    return _read_key()
