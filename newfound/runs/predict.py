"""Naming the category of images that a run has never seen, and telling those that fit none."""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from newfound.data.embeddings import read_ids, read_vectors
from newfound.data.folder import list_images
from newfound.data.parallel import block_within, decode_blocks
from newfound.data.store import ImageStore
from newfound.data.vectors import VectorStore
from newfound.engine.device import pick_device
from newfound.engine.features import read_features
from newfound.engine.frozen import Kept, recalled_features
from newfound.errors import UserError
from newfound.files import new_file, writing_to
from newfound.methods import get_method
from newfound.model import Model, load_model
from newfound.progress import Reporter
from newfound.runfolder import Run
from newfound.tables import format_table
from newfound.trust.reject import calibrate, require_calibrated

BLOCK = 1024
"""Rows of features that are judged at a time, and lines of a table that are written at a time."""


@dataclass(frozen=True)
class Prediction:
    """The category of one image. ``probabilities`` follow the model's categories; ``p_value`` is the share of held-out
    images that are at least as strange to the model, and ``rejected`` says whether that is too few."""

    image: str
    category: str
    confidence: float
    probabilities: list[float]
    p_value: float | None = None
    rejected: bool | None = None


class Predictor:
    """The model of a run, which tells images that fit no category where ``reject`` says which share of the images of
    its categories may be rejected; how strange those are is known from the run or from the images ``calibrate``."""

    def __init__(
        self,
        folder: Path,
        *,
        device: str = "auto",
        reporter: Reporter,
        reject: float | None = None,
        calibrate: Sequence[Path] = (),
    ) -> None:
        run = Run.open(folder)
        self.model = load_model(run.model_folder())
        self.device, self.reporter, self.reject = pick_device(device), reporter, reject
        self._kept = self._find_kept(run)
        if calibrate and reject is None:
            raise UserError("--calibrate is for --reject: say with it which share may be rejected, such as 0.05")
        if reject is not None:
            if calibrate:
                self._calibrate(calibrate)
            require_calibrated(self.model, reject)

    @property
    def takes_images(self) -> bool:
        """Whether the model was made of images; of features otherwise."""
        return self.model.encoder.network != "features"

    def predict(self, paths: Sequence[Path], ids: Path | None = None) -> Iterator[Prediction]:
        """A prediction for every readable image among files and folders, in the order given, as they are made. ``ids``
        is a file that names the rows of features."""
        for names, judged in self._judge(paths, ids):
            probabilities = judged[:, :-1].softmax(1)
            sure, best = probabilities.max(1)
            found = zip(
                names, best.tolist(), sure.tolist(), probabilities.tolist(), self._p_values(judged), strict=True
            )
            for name, category, confidence, row, p_value in found:
                rejected = None if p_value is None or self.reject is None else p_value <= self.reject
                yield Prediction(name, self.model.classes[category], confidence, row, p_value, rejected)

    def columns(self, probabilities: bool) -> list[str]:
        """The header of a table of predictions, with a column for every category where ``probabilities`` are wanted."""
        more = [f"P({name})" for name in self.model.classes] if probabilities else []
        return ["image", "category", "confidence", *([] if self.reject is None else ["p_value", "rejected"]), *more]

    def _p_values(self, judged: Tensor) -> list[float] | list[None]:
        if self.reject is None or self.model.strangeness is None:
            return [None] * len(judged)
        return self.model.strangeness.p_value(judged[:, -1]).tolist()

    def _calibrate(self, paths: Sequence[Path]) -> None:
        calibrate(self.model, torch.cat([judged for _, judged in self._judge(paths)]))

    def _judge(self, paths: Sequence[Path], ids: Path | None = None) -> Iterator[tuple[list[str], Tensor]]:
        """Names of some images and what the model says of them, [n, classes + 1]; only some are in memory at a time."""
        if ids and self.takes_images:
            raise UserError("--ids names the rows of features, and this run was made of images: leave it out")
        read = self._images(paths) if self.takes_images else _given_features(self.model, paths, ids)
        for names, images in read:
            judged = self._judge_images(images).cpu()
            if not judged.isfinite().all():  # finite weights may be so large that what they make is not
                raise UserError(f"the model says of {names[0]} or one after it what is no finite number: make it again")
            yield names, judged

    def _judge_images(self, images: ImageStore) -> Tensor:
        model, quiet = self.model, Reporter(quiet=True)
        if self._kept is None:
            return read_features(model, images, self.device, quiet, title="", of=model.judge)
        of = model.encoder.backbone_features
        backbone = recalled_features(model, images, self.device, self._kept, of=of)
        with torch.no_grad():
            return torch.cat([model.judge_backbone(some) for some in backbone.split(BLOCK)])

    def _find_kept(self, run: Run) -> Kept | None:
        """Where the run keeps the features of its network, if others trained that and it is still the same."""
        identity, encoder = get_method(run.settings.method)(run.settings).kept_as(), self.model.encoder
        if not identity or not self.takes_images:
            return None
        shape = encoder.channels, encoder.size, encoder.size
        return Kept(Path(run.call.cache), identity, shape, self.device, self.reporter)

    def _images(self, paths: Sequence[Path]) -> Iterator[tuple[list[str], ImageStore]]:
        """The readable images among files and folders, with their names; of the others a warning says why not."""
        files = [file for path in paths for file in list_images(path)]
        size, channels = self.model.encoder.size, self.model.encoder.channels
        block, done, read = block_within(size, channels), 0, 0
        for images, reasons in decode_blocks(files, size, channels, self.reporter, block_size=block):
            some = files[done : done + len(reasons)]
            readable = np.array([reason is None for reason in reasons])
            for file, reason in zip(some, reasons, strict=True):
                if reason is not None:
                    self.reporter.warn(f"{file}: {reason}")
            done, read = done + len(reasons), read + int(readable.sum())
            if readable.any():
                yield [str(some[i]) for i in np.flatnonzero(readable)], ImageStore(images[readable])
        if not read:
            raise UserError(f"none of the {len(files)} files given is an image that can be read")


def read_paths(given: Sequence[Path]) -> list[Path]:
    """The paths given, with those listed on standard input, a line (or, between NULs, a path) each, for a -."""
    paths: list[Path] = []
    for path in given:
        if str(path) != "-":
            paths.append(path)
            continue
        content = sys.stdin.buffer.read()
        lines = content.split(b"\0") if b"\0" in content else content.splitlines()
        listed = [Path(os.fsdecode(line)) for line in lines if line.strip()]
        if not listed:
            raise UserError("the list of images on standard input is empty: write a path on each line")
        paths += listed
    return paths


def as_tables(header: Sequence[str], found: Iterator[Prediction]) -> Iterator[str]:
    """CSV text of predictions, piece by piece; no header without a prediction."""
    width = len(format_table(header, []))
    rows: list[list[str]] = []
    begun = False
    for one in found:
        row = [one.image, one.category, f"{one.confidence:.6f}"]
        if one.p_value is not None:
            row += [f"{one.p_value:.6f}", "yes" if one.rejected else "no"]
        rows.append(row + [f"{p:.6f}" for p in one.probabilities][: len(header) - len(row)])
        if len(rows) == BLOCK:
            yield format_table(header, rows)[width if begun else 0 :]
            rows, begun = [], True
    if rows:
        yield format_table(header, rows)[width if begun else 0 :]


def write_table(out: Path, given: Sequence[Path], found: Iterator[Prediction], header: Sequence[str]) -> dict[str, Any]:
    """Write predictions to a CSV file, whole or not at all; gives how many images each category has."""
    if out.is_dir() or not out.absolute().parent.is_dir():
        reason = "is a folder" if out.is_dir() else "is in a folder that does not exist"
        raise UserError(f"--out {out} {reason}: name the CSV file to write")
    if out.exists() and not out.is_file():
        raise UserError(f"--out {out} is no plain file: name the CSV file to write, or leave --out away to print")
    if os.path.realpath(out) in {os.path.realpath(file) for path in given for file in list_images(path)}:
        raise UserError(f"--out {out} is one of the images: name the CSV file to write")
    categories: Counter[str] = Counter()
    rejected: list[bool] = []

    def counted() -> Iterator[Prediction]:
        for one in found:
            categories[one.category] += not one.rejected
            if one.rejected is not None:
                rejected.append(one.rejected)
            yield one

    real = Path(os.path.realpath(out))  # through a link, which stays one
    with contextlib.ExitStack() as held:
        with writing_to(out, "--out"):
            file = held.enter_context(new_file(real))
        for text in as_tables(header, counted()):
            file.write(text.encode("utf-8", errors="surrogateescape"))
    summary = {
        "out": str(out),
        "images": categories.total() + sum(rejected),
        "categories": dict(sorted(categories.items())),
    }
    return summary | ({"rejected": sum(rejected)} if "rejected" in header else {})


def as_mapping(one: Prediction, classes: Sequence[str] | None) -> dict[str, Any]:
    """A prediction for JSON, with every category's probability where ``classes`` are given."""
    mapping: dict[str, Any] = {"image": one.image, "category": one.category, "confidence": one.confidence}
    if one.p_value is not None:
        mapping |= {"p_value": one.p_value, "rejected": one.rejected}
    if classes is not None:
        mapping["probabilities"] = dict(zip(classes, one.probabilities, strict=True))
    return mapping


def _given_features(model: Model, paths: Sequence[Path], ids: Path | None) -> Iterator[tuple[list[str], ImageStore]]:
    """The rows of .npy files of features, called as ``ids`` names them, or FILE:ROW from row 0; all files are looked at
    first."""
    tables = [_vectors(model, path) for path in paths]
    rows = (f"{path}:{row}" for path, table in zip(paths, tables, strict=True) for row in range(len(table)))
    names = iter(read_ids(ids, sum(map(len, tables)))) if ids else rows
    for table in tables:
        for first in range(0, len(table), BLOCK):
            some = table[first : first + BLOCK]
            yield list(itertools.islice(names, len(some))), VectorStore(some)


def _vectors(model: Model, path: Path) -> np.ndarray:
    if path.suffix != ".npy":
        raise UserError(f"this run was made of features: give .npy files of them, not {path}")
    table = read_vectors(path)
    if table.shape[1] != model.encoder.channels:
        found, wanted = table.shape[1], model.encoder.channels
        raise UserError(f"{path} has {found} numbers for each image, and the run was made of {wanted}")
    return table
