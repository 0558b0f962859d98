"""A model as an ONNX file: one file that onnxruntime, and what else reads ONNX, can name categories with."""

from __future__ import annotations

import contextlib
import copy
import json
import logging
import os
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from newfound._version import __version__
from newfound.errors import UserError
from newfound.files import write_bytes, writing_to
from newfound.memory import ran_out
from newfound.model.graph import Graph
from newfound.model.model import Model

ENDING = ".onnx"
OPSET = 18
LARGEST = 2**31 - 2**20
"""Bytes of an ONNX file: the format ends at 2 GiB, and beside the weights there is the graph."""
CHECKED = 200
"""Images at the most that the file and the model are compared on."""
FARTHEST = 1e-3
"""By which a probability may differ before nothing is written."""
BATCH = 32

PIXELS = (
    "uint8 pixels in {colours}, upright as EXIF says, transparent pixels on white; of any size, alike in a batch: the "
    "graph takes the centre square, scales it to {size} x {size} pixels and normalises it"
)
NUMBERS = "float32 features, {size} numbers each, made as those that the model learned from"


@dataclass(frozen=True)
class Written:
    """An ONNX file, and how far at the most its probabilities were from the model's on some images."""

    path: Path
    bytes: int
    outputs: tuple[str, ...]
    images: int
    """How many images it was compared on."""
    real: bool
    """Whether these were images of the person's; random ones otherwise."""
    difference: float


def write_onnx(
    model: Model, path: Path, *, images: Tensor | None = None, names: Sequence[str] = (), about: Mapping[str, Any]
) -> Written:
    """Write the model to one ONNX file, after its graph gave what the model gives for ``images``, uint8 [n, C, S, S]
    (or features [n, D]), by default random ones.

    ``names`` are the categories', if not those of ``model.classes``; ``about`` goes into the file's metadata.
    """
    onnx, onnxruntime = _packages()
    check_place(path)
    graph = Graph(copy.deepcopy(model).cpu().eval().requires_grad_(False)).eval()
    size = sum(t.numel() * t.element_size() for t in graph.state_dict().values())
    if size > LARGEST:
        raise UserError(f"the model has {size / 1e9:.1f} GB, and an ONNX file can have 2 GB: it cannot be exported")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        example = _random_input(graph, 2)
        given = _random_input(graph, 64) if images is None else images[:CHECKED].cpu()
    content = _exported(graph, example)
    difference = _difference(graph, onnxruntime, content, given)
    if not difference["probability"] <= FARTHEST:  # a NaN too
        raise UserError(
            f"the graph's probabilities are up to {difference['probability']:.2g} from the model's, more than "
            f"{FARTHEST:g}: nothing was written; please report this with the output of `newfound doctor`"
        )
    file = onnx.load_from_string(content)
    compared = {"images": len(given), "real": images is not None, **difference}
    for key, value in (_metadata(graph, names) | dict(about) | {"compared": compared}).items():
        onnx.helper.set_model_props(file, {**_props(file), key: value if isinstance(value, str) else json.dumps(value)})
    file.producer_name, file.producer_version = "newfound", __version__
    onnx.checker.check_model(file)
    content = file.SerializeToString()
    with writing_to(path, "--to"):
        write_bytes(path, content)
    return Written(path, len(content), graph.outputs, len(given), images is not None, difference["probability"])


def check_place(path: Path) -> None:
    """Stop if a model cannot be written there: what is no plain file is not replaced."""
    if path.suffix.lower() != ENDING:
        raise UserError(f"--to {path}: the name of an ONNX file ends in {ENDING}")
    if path.is_symlink() or (path.exists() and not path.is_file()):
        what = "a link" if path.is_symlink() else "a folder" if path.is_dir() else "no plain file"
        raise UserError(f"--to {path} is {what}: name a new file, or one to replace")
    if not path.absolute().parent.is_dir():
        raise UserError(f"--to {path} is in a folder that does not exist: make it first")


def _packages() -> tuple[Any, Any]:
    try:
        import onnx
        import onnxruntime
    except ImportError as error:
        raise UserError(f'ONNX files need more packages ({error}): pip install "newfound[onnx]"') from None
    return onnx, onnxruntime


def _props(file: Any) -> dict[str, str]:
    return {entry.key: entry.value for entry in file.metadata_props}


def _metadata(graph: Graph, names: Sequence[str]) -> dict[str, Any]:
    """What somebody who has the file alone has to know; values that are not strings are written as JSON."""
    model, encoder = graph.model, graph.model.encoder
    classes = [str(name) for name in names or model.classes]
    if graph.takes_images:
        colours = "red, green, blue" if encoder.channels == 3 else "grey"
        before = PIXELS.format(colours=colours, size=encoder.size)
    else:
        before = NUMBERS.format(size=encoder.channels)
    return {
        "newfound": __version__,
        "method": model.method,
        "network": encoder.network,
        "categories": classes,
        "known": classes[: len(model.known)],
        "novel": classes[len(model.known) :],
        "image": {"channels": encoder.channels, "size": encoder.size} if graph.takes_images else None,
        "input": before,
    }


def _random_input(graph: Graph, n: int) -> Tensor:
    encoder = graph.model.encoder
    if not graph.takes_images:
        return torch.randn(n, encoder.channels)
    return torch.randint(0, 256, (n, encoder.channels, encoder.size, encoder.size), dtype=torch.uint8)


def _exported(graph: Graph, example: Tensor) -> bytes:
    """The graph as ONNX, by torch's exporter from traces: the other one needs a package more."""
    axes: dict[str, dict[int, str]] = {name: {0: "N"} for name in graph.outputs}
    axes["images"] = {0: "N", 2: "height", 3: "width"} if graph.takes_images else {0: "N"}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.onnx"
        try:
            with _quiet(), torch.no_grad():
                torch.onnx.export(
                    graph,
                    (example,),
                    file,
                    dynamo=False,
                    opset_version=OPSET,
                    input_names=["images"],
                    output_names=list(graph.outputs),
                    dynamic_axes=axes,
                )
        except Exception as error:  # whatever an exporter may say of a network of others'
            if ran_out(error):
                raise
            reason = " ".join(str(error).split())[:200]
            network = graph.model.encoder.network
            raise UserError(f"torch cannot write the network {network} as ONNX: {reason}") from None
        return file.read_bytes()


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """While entered, the exporter keeps to itself that it is the older one, and which sizes it takes for fixed."""
    log = logging.getLogger("torch.onnx")
    before = log.level
    log.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(before)


@torch.no_grad()
def _difference(graph: Graph, onnxruntime: Any, content: bytes, images: Tensor) -> dict[str, float]:
    """How far at the most the file is from the model: a probability, and strangeness where there is such."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    farthest = {"probability": 0.0} | ({"strangeness": 0.0} if "strangeness" in graph.outputs else {})
    for some in images.split(BATCH):
        found = session.run(None, {"images": some.numpy()})
        judged = graph.model.judge(some if graph.takes_images else some[:, :, None, None]).numpy()
        wanted = torch.from_numpy(judged[:, :-1]).softmax(1).numpy(), judged[:, -1]
        for name, mine, theirs in zip(farthest, found, wanted, strict=False):
            farthest[name] = float(np.maximum(farthest[name], np.abs(mine - theirs).max()))
    return farthest
