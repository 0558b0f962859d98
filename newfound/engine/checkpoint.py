"""Checkpoints: safetensors and JSON in a folder of their own, committed by one rename, with the previous one kept.

Both files have a checksum: one that has rotted is passed over like one that is cut off.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from torch import Tensor

from newfound.errors import UserError
from newfound.files import clear_unfinished, make_folder, new_directory, remove_own
from newfound.memory import ran_out
from newfound.progress import Reporter
from newfound.strangers import parse_json, read_small, require_regular
from newfound.tensors import pieces, read_tensors

FORMAT = 2
"""Since 2 there are checksums; a run that began without them goes on all the same."""
KEPT = 2
BUFFER = 2**20
"""Bytes of small tensors that are written at once."""
NAMES = "[!.]*-" + "[0-9]" * 9
"""What the folder of a checkpoint is called, for ``glob``: STAGE-STEP."""


FILES = {"state.json", "tensors.safetensors"}


@dataclass(frozen=True)
class Checkpoint:
    """Where a stage stood after ``step`` steps: its tensors, and everything else as plain values."""

    step: int
    tensors: dict[str, Tensor]
    state: dict[str, Any]


class Checkpoints:
    """The folder ``checkpoint/`` of a run: ``STAGE-STEP/`` each with tensors.safetensors and state.json.

    What is called otherwise or holds something else, and links, are not ours: they are neither read nor removed.
    """

    def __init__(self, folder: Path, reporter: Reporter) -> None:
        self.folder = folder
        self.reporter = reporter

    def save(self, stage: str, step: int, tensors: dict[str, Tensor], state: dict[str, Any], *, last: bool) -> None:
        """Commit a checkpoint, then drop all but the newest two of the stage; of a finished stage just one stays."""
        path = self.folder / f"{stage}-{step:09d}"
        make_folder(self.folder)
        with new_directory(path, self.folder.parent) as folder:
            file = folder / "tensors.safetensors"
            with open(file, "wb", BUFFER) as writing:  # not save_file: its error on a full disk is no OSError
                writing.writelines(pieces(tensors))
            content = {"format": FORMAT, "stage": stage, "step": step, "bytes": file.stat().st_size, **state}
            content["crc32"] = _checksum(content)
            (folder / "state.json").write_text(json.dumps(content), encoding="utf-8")
        clear_unfinished(self.folder, NAMES, self.folder.parent)
        for old in self._paths(stage)[1 if last else KEPT :]:
            self._remove(old)

    def latest(self, stage: str) -> Checkpoint | None:
        """The newest checkpoint of the stage that can be read, or None; one that is damaged is passed over, aloud."""
        for path in self._paths(stage):
            try:
                return _read(path)
            except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, SafetensorError) as error:
                if isinstance(error, UserError) or ran_out(error):
                    raise
                self.reporter.warn(f"the checkpoint {path} cannot be read ({error}); going back to what was before it")
        return None

    def forget_others(self, stages: Iterable[str]) -> None:
        """Remove the checkpoints of all stages but these: what followed a stage that begins anew is void."""
        kept = {path for stage in stages for path in self._paths(stage)}
        for path in self._paths():
            if path not in kept:
                self._remove(path)

    def _remove(self, path: Path) -> None:
        """Remove a checkpoint; a folder that holds anything else is somebody's own, whatever its name, and stays."""
        remove_own(path, FILES, self.folder.parent)

    def _paths(self, stage: str | None = None) -> list[Path]:
        """The checkpoints of a stage, the newest first; by default those of all stages."""
        if self.folder.is_symlink():
            return []
        found = (p for p in self.folder.glob(NAMES) if p.is_dir() and not p.is_symlink())
        return sorted((p for p in found if stage in (None, p.name[:-10])), reverse=True)


def _checksum(content: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(content, sort_keys=True).encode())


def _read(path: Path) -> Checkpoint:
    state = parse_json(read_small(path / "state.json"))
    promised = state.pop("crc32", None)
    if promised is not None and promised != _checksum(state):
        raise ValueError("state.json is not what was written: its checksum differs")
    if state["format"] > FORMAT:
        raise UserError(f"{path} was written by a newer version of newfound; update newfound to resume this run")
    if state["format"] > 1 and promised is None:
        raise ValueError("state.json has no checksum")
    file = path / "tensors.safetensors"
    found = require_regular(file).st_size
    if found != state["bytes"]:
        raise ValueError(f"{file.name} has {found} bytes instead of {state['bytes']}")
    return Checkpoint(int(state["step"]), read_tensors(file, checked=state["format"] > 1), state)
