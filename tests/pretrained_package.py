"""A package like the one that carries the weights of EfficientNet-Lite0, with random weights in it."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from newfound.nets import build, pretrained

NAME = "efficientnet-lite0"


def install(folder: Path, monkeypatch, *, damage: bool = False) -> Path:
    """Put such a package on the path and its checksum into ours; gives back the file of the weights."""
    torch.manual_seed(0)
    net = build(NAME, 3, 224)
    for name, buffer in net.named_buffers():
        if name.endswith("running_var"):
            buffer.uniform_(0.5, 2)
    theirs = {_their_name(name): value for name, value in net.state_dict().items()}
    package = pretrained.PACKAGES[NAME]
    file = folder / package.name / "models" / package.file
    file.parent.mkdir(parents=True)
    # Importing it is a mistake.
    (folder / package.name / "__init__.py").write_text("raise SystemExit('the package was imported')\n")
    torch.save(theirs | {"_fc.weight": torch.zeros(1000, 1280), "_fc.bias": torch.zeros(1000)}, file)
    sha256 = hashlib.sha256(file.read_bytes()).hexdigest()
    if damage:
        file.write_bytes(file.read_bytes()[:-1] + b"!")
    information = folder / f"{package.name}-0.1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package.name}\nVersion: 0.1.0\n")
    (information / "RECORD").write_text(f"{package.name}/__init__.py,,\n{package.name}/models/{package.file},,\n")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setitem(pretrained.PACKAGES, NAME, pretrained.Package(package.name, package.file, sha256))
    return file


def _their_name(ours: str) -> str:
    """blocks.4.bn1.weight is _blocks.4._bn1.weight there."""
    *modules, last = ours.split(".")
    return ".".join([*(part if part.isdigit() else f"_{part}" for part in modules), last])


def coloured_folders(folder: Path) -> dict[str, Any]:
    """Two known colours, three images each, and six images of two others: what ``discover`` is given for them."""
    rng = np.random.default_rng(0)
    colours = {"known/red": (200, 40, 40), "known/blue": (40, 40, 200), "pile/a": (40, 200, 40), "pile/b": (200,) * 3}
    for name, colour in colours.items():
        (folder / name).mkdir(parents=True)
        for i in range(3):
            pixels = np.clip(rng.normal(colour, 30, (20, 24, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{i}.png")
    return {"labelled": folder / "known", "unlabelled": folder / "pile", "n_novel": 2, "backbone": NAME}
