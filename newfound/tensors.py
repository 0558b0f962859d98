"""Files of tensors that say whether they are still what was written: safetensors with a checksum in their header."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from newfound.memory import require_memory
from newfound.strangers import require_regular

CHECKSUM = "crc32"
"""What the checksum is called in a file's metadata. It finds bytes that have changed by themselves, not forgeries."""


class Rotten(ValueError):
    """A file's bytes are no longer those that were written."""


TYPES = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64",
    torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8", torch.bool: "BOOL",
}  # fmt: skip
"""What safetensors calls the types of tensors that are written."""
UNREAD = (torch.complex64, torch.float4_e2m1fn_x2)
"""Types that torch has, and in which nothing that is read here can be: pairs of numbers."""


def pack(tensors: Mapping[str, Tensor]) -> bytes:
    """A safetensors file of these tensors, with their checksum."""
    return b"".join(pieces(tensors))


def pieces(tensors: Mapping[str, Tensor]) -> list[bytes | memoryview]:
    """The same as pieces to write one after the other: of tensors on the CPU nothing is copied, which takes as long as
    their checksum."""
    ready = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    header: dict[str, Any] = {"__metadata__": {CHECKSUM: checksum(ready)}}
    found: list[bytes | memoryview] = []
    end = 0
    for name in sorted(ready, key=lambda name: (-ready[name].element_size(), name)):  # each where its numbers may begin
        value, content = ready[name], _bytes_of(ready[name])
        begin, end = end, end + content.nbytes
        header[name] = {"dtype": TYPES[value.dtype], "shape": list(value.shape), "data_offsets": [begin, end]}
        found.append(content)
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return [len(text).to_bytes(8, "little"), text, *found]


def _bytes_of(value: Tensor) -> memoryview:
    found: memoryview = value.contiguous().reshape(-1).view(torch.uint8).numpy().data
    return found


def checksum(tensors: Mapping[str, Tensor]) -> str:
    """Eight hexadecimal digits that follow from names, types, shapes and values of tensors on the CPU."""
    found = 0
    for name in sorted(tensors):
        value = tensors[name]
        found = zlib.crc32(f"{name} {value.dtype} {tuple(value.shape)}\n".encode(), found)
        found = zlib.crc32(_bytes_of(value), found)
    return f"{found:08x}"


def read_tensors(path: Path, *, checked: bool = False) -> dict[str, Tensor]:
    """The tensors of a safetensors file, of whatever type; of pairs of numbers there are none. Those that no longer fit
    the checksum, or with ``checked`` have none, are Rotten; a file too large for the memory there is, is a UserError.
    What else is wrong is the library's exception."""
    # A sparse file of terabytes takes no room on disk.
    require_memory(require_regular(path).st_size, f"{path}")
    try:
        with safe_open(path, "pt") as file:
            promised = (file.metadata() or {}).get(CHECKSUM)
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - the file is no mapping
    except (UnicodeDecodeError, OverflowError) as error:
        raise SafetensorError(str(error)) from None
    for name, value in tensors.items():
        if value.dtype in UNREAD:
            kind = str(value.dtype).removeprefix("torch.")
            raise SafetensorError(f"{name[:80]} has the type {kind}, which is not read")
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
