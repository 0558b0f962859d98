"""Files of tensors that say whether they are still what was written: safetensors with a checksum in their header."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from newfound.memory import require_memory
from newfound.strangers import require_regular

CHECKSUM = "crc32"
"""What the checksum is called in a file's metadata. It finds bytes that have changed by themselves, not forgeries."""


class Rotten(ValueError):
    """A file's bytes are no longer those that were written."""


def pack(tensors: Mapping[str, Tensor]) -> bytes:
    """A safetensors file of these tensors, with their checksum."""
    ready = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    return save(ready, metadata={CHECKSUM: checksum(ready)})


def checksum(tensors: Mapping[str, Tensor]) -> str:
    """Eight hexadecimal digits that follow from names, types, shapes and values of tensors on the CPU."""
    found = 0
    for name in sorted(tensors):
        value = tensors[name]
        found = zlib.crc32(f"{name} {value.dtype} {tuple(value.shape)}\n".encode(), found)
        found = zlib.crc32(value.contiguous().reshape(-1).view(torch.uint8).numpy().data, found)
    return f"{found:08x}"


def read_tensors(path: Path, *, checked: bool = False) -> dict[str, Tensor]:
    """The tensors of a safetensors file. Those that no longer fit the checksum, or with ``checked`` have none, are
    Rotten; a file too large for the memory there is, is a UserError. What else is wrong is the library's exception."""
    # A sparse file of terabytes takes no room on disk.
    require_memory(require_regular(path).st_size, f"{path}")
    try:
        with safe_open(path, "pt") as file:
            promised = (file.metadata() or {}).get(CHECKSUM)
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - the file is no mapping
    except (UnicodeDecodeError, OverflowError) as error:
        raise SafetensorError(str(error)) from None
    if promised is None and checked:
        raise Rotten(f"{path.name} has no checksum")
    if promised is not None and not re.fullmatch(r"[0-9a-f]{8}", promised):
        raise Rotten(f"{path.name} has a checksum that is none")
    if promised is not None and promised != checksum(tensors):
        raise Rotten(f"{path.name} is not what was written: its checksum differs")
    return tensors


def read_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """The shapes of the tensors in a safetensors file, by name, read from its header alone."""
    require_regular(path)
    with safe_open(path, "pt") as file:
        return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118


def first_not_finite(tensors: Mapping[str, Tensor]) -> str | None:
    """The name of a tensor that holds infinity or what is no number; None where all are finite."""
    return next((name for name, value in tensors.items() if not bool(torch.isfinite(value).all())), None)
