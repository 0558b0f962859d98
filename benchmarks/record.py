"""What every benchmark record says of its making, and the one way to write one.

    python benchmarks/record.py --stamp     writes benchmarks/COMMIT, before the tree is copied to where there is no git

A record's commit comes from git or, where there is none, from that file, which has a digest of the code too. "+"
after the commit means that the code (Python and YAML files) differed from it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

STAMP = Path(__file__).parent / "COMMIT"
FIELDS = ("commit", "date", "hardware", "versions", "settings", "seed")


def _from_git(folder: Path) -> str | None:
    """The commit according to git; None where there is no git or no repository."""

    def git(*words: str) -> str:
        done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    try:
        found = git("rev-parse", "HEAD")
        changed = git("status", "--porcelain", "--", ":(top)*.py", ":(top)*.yaml")
    except (OSError, subprocess.CalledProcessError):
        return None
    return found + ("+" if changed else "")


STARTED_FROM = _from_git(STAMP.parent)
"""Read at the start: the tree may change while a benchmark runs."""


def begin(*, settings: Any, seed: int | Sequence[int], device: Any = "cpu") -> dict[str, Any]:
    """What every record begins with: commit, date, hardware, versions, settings and seed.

    ``settings`` are a method's resolved settings, a dictionary of such by name, or {} where nothing is trained.
    """
    import numpy as np
    import torch

    from newfound import __version__
    from newfound.engine.device import describe_device

    return {
        "commit": commit_of_newfound(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "hardware": describe_device(torch.device(device)),
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": np.__version__,
            "newfound": __version__,
        },
        "settings": _plain(settings),
        "seed": seed if isinstance(seed, int) else list(seed),
    }


def write(path: Path, record: dict[str, Any]) -> None:
    """Write the record in one step, so that a reader finds all of it or nothing."""
    missing = [name for name in FIELDS if name not in record]
    if missing:
        raise ValueError(f"the record {path.name} has no {', '.join(missing)}: make it with record.begin")
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(json.dumps(record, indent=1) + "\n")
    draft.replace(path)


def commit_of_newfound() -> str:
    """The commit of the newfound that is imported, which has to be that of this tree."""
    import newfound

    found, root = Path(newfound.__file__).resolve().parents[1], STAMP.resolve().parents[1]
    if found != root:
        raise SystemExit(f"newfound is imported from {found}, not from this tree: set PYTHONPATH={root}")
    return commit()


def commit(found: str | None = STARTED_FROM, stamp: Path = STAMP) -> str:
    """The commit that git ``found``, with "+" where files differ from it. The stamp's instead where there is no git, or
    where the stamp fits the code and git's commit does not: the copy may have landed in an older repository."""
    if stamp.exists() and (found is None or found.endswith("+")):
        stamped, digest = stamp.read_text().split()
        if digest == _digest(stamp.parents[1]):
            found = stamped
        elif found is None:
            found = stamped.removesuffix("+") + "+"
    if found is None:
        raise SystemExit(
            f"the commit is unknown: there is no git here and no {stamp}; where there is git, call "
            "`python benchmarks/record.py --stamp` before the tree is copied"
        )
    return found


def _digest(root: Path) -> str:
    """Of all code below ``root`` that a benchmark may run."""
    found = hashlib.sha256()
    for folder in ("benchmarks", "newfound"):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in (".py", ".yaml"):
                found.update(f"{path.relative_to(root)} {path.stat().st_size}\n".encode() + path.read_bytes())
    return found.hexdigest()


def _plain(settings: Any) -> Any:
    """Settings as JSON has them."""
    if isinstance(settings, dict):
        return {name: _plain(value) for name, value in settings.items()}
    if hasattr(settings, "__dataclass_fields__"):
        from newfound.config.mapping import to_mapping

        return to_mapping(settings)
    return settings


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stamp", action="store_true", required=True)
    parser.parse_args()
    found = _from_git(STAMP.parent)
    if found is None:
        raise SystemExit("there is no git here: call this where the tree is checked out")
    STAMP.write_text(f"{found} {_digest(STAMP.parents[1])}\n")
    print(f"{STAMP}: {found}")


if __name__ == "__main__":
    main()
