"""What the tests of faults and strangers' files share: what lies in a folder, and a record of how much was tried."""

import fcntl
import json
import os
from pathlib import Path

import numpy as np
from PIL import Image

RECORD = Path(__file__).parent / "hostile" / "record.json"
TINY = {"network": "tiny", "data.size": 8, "stage1.epochs": 2, "stage1.batch": 4}
TINY_WORDS = [word for name, value in TINY.items() for word in ("--set", f"{name}={value}")]


def picture(path, seed, colour=(128, 128, 128)):
    """An image of 8 x 8 pixels; no two seeds give the same one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.clip(np.random.default_rng(seed).normal(colour, 40, (8, 8, 3)), 0, 255).astype(np.uint8)
    Image.fromarray(pixels).save(path)


def make_trees(folder):
    """Two known categories of four images in ``folder``/known, and a pile of two times four."""
    for i in range(4):
        picture(folder / "known" / "red" / f"{i}.png", i, (220, 30, 30))
        picture(folder / "known" / "blue" / f"{i}.png", 10 + i, (30, 30, 220))
        picture(folder / "pile" / f"{i}.png", 20 + i, (30, 220, 30))
        picture(folder / "pile" / f"1{i}.png", 30 + i, (220, 220, 30))
    return folder


def finished_run(folder, **options):
    """The same trees with a finished run of them in ``folder``/run, and with truth.csv."""
    make_trees(folder)
    names = sorted(path.name for path in (folder / "pile").iterdir())
    rows = [f"{name},{'a' if len(name) == 5 else 'b'}\n" for name in names]
    (folder / "truth.csv").write_text("".join(["image,label\n", *rows]))
    from newfound import discover

    places = {"out": folder / "run", "cache": folder / "cache"}
    discover(folder / "known", folder / "pile", n_novel=2, settings=TINY, **places, **options)
    return folder


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
