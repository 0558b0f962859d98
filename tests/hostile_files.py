"""What the tests of faults and strangers' files share: what lies in a folder, and a record of how much was tried."""

import fcntl
import json
import os
from pathlib import Path

RECORD = Path(__file__).parent / "hostile" / "record.json"
TINY = {"network": "tiny", "data.size": 8, "stage1.epochs": 2, "stage1.batch": 4}
TINY_WORDS = [word for name, value in TINY.items() for word in ("--set", f"{name}={value}")]


def everything(folder):
    return {p.relative_to(folder): p.read_bytes() if p.is_file() else None for p in sorted(folder.rglob("*"))}


def every_case():
    """Whether everything is tried and recorded, as `make security` does, and not a choice by a seed."""
    return bool(os.environ.get("NEWFOUND_RECORD"))


TRIED: dict[str, dict[str, tuple[int, int]]] = {}
"""How many cases of each section and row were tried in this process, and how many were bad."""


def note(section, row, tried, bad):
    """Count cases; where the record is being made that docs/security.md is made from, add them to it."""
    TRIED.setdefault(section, {})[row] = (tried, bad)
    if not every_case():
        return
    with open(RECORD, "a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        record = json.loads(file.read() or "{}")
        record.setdefault(section, {})[row] = {"tried": tried, "bad": bad}
        file.truncate(0)
        file.write(json.dumps(record, indent=2, sort_keys=True) + "\n")
