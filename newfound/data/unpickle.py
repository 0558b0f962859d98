"""The publishers' CIFAR files, which are Python 2 pickles, read without executing anything.

Not the pickle module: it calls what a file names, and files come from strangers. This reader knows the few opcodes
and the names that CIFAR files contain, follows them with objects of its own, and stops at anything else.
"""

from __future__ import annotations

import struct
import warnings
from contextlib import suppress
from dataclasses import dataclass
from math import prod
from pathlib import Path
from pickletools import genops, opcodes
from typing import Any, NoReturn

import numpy as np

from newfound.errors import UserError

MOST_BYTES = 400_000_000
"""Larger files are not opened. The largest of the publishers', CIFAR-100's train, has 155 million bytes."""

MOST_STEPS = 2_000_000
"""Opcodes followed at most. CIFAR-100's train has some 200,000; each may make an object far larger than itself."""

RECONSTRUCT = ("numpy.core.multiarray._reconstruct", "numpy._core.multiarray._reconstruct")
NDARRAY, DTYPE = "numpy.ndarray", "numpy.dtype"
ADMITTED = (*RECONSTRUCT, NDARRAY, DTYPE)
"""The names that CIFAR files contain; numpy 2 spells the first in another way."""


def read_pickle(path: Path) -> dict[bytes, Any]:
    """The dictionary in a CIFAR file: byte strings, whole numbers, lists of them, and arrays of type uint8."""
    try:
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise UserError(
                f"{str(path)!r} has {size:,} bytes, and no CIFAR file more than {MOST_BYTES:,}: it is not loaded"
            )
        content = path.read_bytes()
    except OSError as error:
        raise UserError(f"{str(path)!r} cannot be read: {(error.strerror or str(error)).lower()}") from None
    return _Reader(content, path).read()


@dataclass(frozen=True)
class _Named:
    """Stands for what the file names; nothing is imported."""

    name: str


@dataclass
class _Type:
    """Stands for numpy.dtype("u1"), the one type that is admitted."""

    built: bool = False


@dataclass
class _Array:
    """Stands for an array, which has its pixels once it is built."""

    pixels: np.ndarray | None = None


class _Reader:
    """Follows a pickle's opcodes over a stack, as pickle's own machine does (module pickletools describes it)."""

    def __init__(self, content: bytes, path: Path) -> None:
        self.content, self.path = content, path
        self.at = 0
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}

    def read(self) -> dict[bytes, Any]:
        steps = {opcode: getattr(self, name) for opcode, name in OPCODES.items()}
        try:
            for _ in range(MOST_STEPS):
                opcode = self.take(1)
                if opcode == b".":
                    return self.result()
                if opcode not in steps:
                    names = {known.code: known.name for known in opcodes}
                    self.refuse_kind(f"has the opcode {names.get(opcode.decode('latin-1'), repr(opcode)[2:-1])}")
                steps[opcode]()
        except (IndexError, KeyError):  # a stack or a memo that does not hold what an opcode takes from it
            self.refuse("is damaged: its opcodes do not fit together")
        self.refuse(f"has more than {MOST_STEPS:,} opcodes, which no CIFAR file has")

    def refuse(self, what: str) -> NoReturn:
        raise UserError(f"{str(self.path)!r} {what}: it is not loaded") from None

    def refuse_kind(self, what: str) -> NoReturn:
        names = " and ".join(_names_in(self.content))
        self.refuse(f"{what}{f' and asks for {names}' if names else ''}, unlike any CIFAR file")

    def result(self) -> dict[bytes, Any]:
        value = self.stack.pop()
        if self.stack or self.marks or not isinstance(value, dict):
            self.refuse(f"holds a {_kind(value)} where CIFAR files hold a dictionary")
        return {key: self.finished(item) for key, item in value.items()}

    def finished(self, value: Any) -> Any:
        if isinstance(value, _Array):
            if value.pixels is None:
                self.refuse("has an array without content")
            return value.pixels
        if isinstance(value, _Named | _Type):
            self.refuse(f"holds a {_kind(value)} where CIFAR files hold text, numbers or arrays")
        return value

    # What the opcodes read from the file

    def take(self, n: int) -> bytes:
        start, self.at = self.at, self.at + n
        if self.at > len(self.content):
            self.refuse(f"is truncated: it ends after {len(self.content):,} bytes, in the middle of its content")
        return self.content[start : self.at]

    def line(self) -> str:
        """The text up to the end of the line, such that it prints on one line whatever is in it."""
        end = self.content.find(b"\n", self.at)
        line = self.take((end if end >= 0 else len(self.content)) + 1 - self.at)
        return _printable(line[:-1])

    def number(self, form: str) -> int:
        return int(struct.unpack(form, self.take(struct.calcsize(form)))[0])

    # What they take from the stack

    def since_mark(self) -> list[Any]:
        mark = self.marks.pop()
        values = self.stack[mark:]
        del self.stack[mark:]
        return values

    def top(self, kind: type) -> Any:
        floor = self.marks[-1] if self.marks else 0
        if len(self.stack) <= floor or not isinstance(self.stack[-1], kind):
            raise IndexError
        return self.stack[-1]

    # The opcodes

    def protocol(self) -> None:
        if (found := self.take(1)[0]) != 2:
            self.refuse_kind(f"is a pickle of protocol {found}")

    def mark(self) -> None:
        self.marks.append(len(self.stack))

    def none(self) -> None:
        self.stack.append(None)

    def true(self) -> None:
        self.stack.append(True)

    def false(self) -> None:
        self.stack.append(False)

    def int32(self) -> None:
        self.stack.append(self.number("<i"))

    def uint16(self) -> None:
        self.stack.append(self.number("<H"))

    def uint8(self) -> None:
        self.stack.append(self.take(1)[0])

    def text(self) -> None:
        if (n := self.number("<i")) < 0:
            raise IndexError
        self.stack.append(self.take(n))

    def short_text(self) -> None:
        self.stack.append(self.take(self.take(1)[0]))

    def list_(self) -> None:
        self.stack.append([])

    def append(self) -> None:
        value = self.stack.pop()
        self.top(list).append(value)

    def appends(self) -> None:
        values = self.since_mark()
        self.top(list).extend(values)

    def dict_(self) -> None:
        self.stack.append({})

    def set_item(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self.fill(self.top(dict), [key, value])

    def set_items(self) -> None:
        values = self.since_mark()
        self.fill(self.top(dict), values)

    def fill(self, target: dict[bytes, Any], values: list[Any]) -> None:
        keys = values[::2]
        if len(values) % 2 or not all(isinstance(key, bytes) for key in keys):
            self.refuse("has a dictionary whose keys are not byte strings")
        target.update(zip(keys, values[1::2], strict=True))

    def tuple_(self) -> None:
        self.stack.append(tuple(self.since_mark()))

    def tuple1(self) -> None:
        self.stack[-1:] = [(self.stack[-1],)]

    def tuple2(self) -> None:
        self.stack[-2:] = [(self.stack[-2], self.stack[-1])]

    def tuple3(self) -> None:
        self.stack[-3:] = [(self.stack[-3], self.stack[-2], self.stack[-1])]

    def put(self) -> None:
        self.memo[self.take(1)[0]] = self.top(object)

    def long_put(self) -> None:
        self.memo[self.number("<I")] = self.top(object)

    def get(self) -> None:
        self.stack.append(self.memo[self.take(1)[0]])

    def long_get(self) -> None:
        self.stack.append(self.memo[self.number("<I")])

    def global_(self) -> None:
        name = f"{self.line()}.{self.line()}"
        if name not in ADMITTED:
            names = dict.fromkeys([name, *_names_in(self.content)])
            self.refuse(f"asks for {' and '.join(names)}, which no CIFAR file does")
        self.stack.append(_Named(name))

    def reduce(self) -> None:
        """A call of one of the names: an array without content, or the type uint8."""
        arguments = self.stack.pop()
        called = self.top(_Named).name
        if called in RECONSTRUCT and arguments == (_Named(NDARRAY), (0,), b"b"):
            self.stack[-1] = _Array()
        elif called == DTYPE and arguments == (b"u1", 0, 1):
            self.stack[-1] = _Type()
        elif called == DTYPE:
            self.refuse("has an array of another type than uint8 (u1)")
        else:
            self.refuse(f"calls {called} in another way than CIFAR files do")

    def build(self) -> None:
        """The content of an array, or the details of its type."""
        state = self.stack.pop()
        target = self.top(object)
        if isinstance(target, _Type) and isinstance(state, tuple) and state[1:2] == (b"|",):
            # No fields, no objects, no size of its own; (3, "|", None, None, None, -1, -1, 0) in numpy since 1.0.
            target.built = all(detail in (None, -1, 0) for detail in state[2:])
        elif isinstance(target, _Array) and isinstance(state, tuple) and len(state) == 5:
            target.pixels = self.pixels(*state)
        else:
            self.refuse(f"gives a {_kind(target)} a content that CIFAR files do not")

    def pixels(self, version: Any, shape: Any, kind: Any, by_column: Any, content: Any) -> np.ndarray:
        if version != 1 or not isinstance(kind, _Type) or not kind.built or by_column not in (0, 1):
            self.refuse("has an array that is not described as in CIFAR files")
        if not isinstance(shape, tuple) or not all(type(n) is int and n >= 0 for n in shape) or len(shape) > 4:
            self.refuse("has an array whose shape makes no sense")
        if not isinstance(content, bytes) or len(content) != prod(shape):
            found = f"{len(content):,} bytes" if isinstance(content, bytes) else f"a {_kind(content)}"
            self.refuse(f"has an array of shape {list(shape)} with {found} as content")
        return np.frombuffer(content, np.uint8).reshape(shape, order="F" if by_column else "C")


OPCODES = {
    b"\x80": "protocol", b"(": "mark", b"N": "none", b"\x88": "true", b"\x89": "false",
    b"J": "int32", b"M": "uint16", b"K": "uint8", b"T": "text", b"U": "short_text",
    b"]": "list_", b"a": "append", b"e": "appends", b"}": "dict_", b"s": "set_item", b"u": "set_items",
    b"t": "tuple_", b"\x85": "tuple1", b"\x86": "tuple2", b"\x87": "tuple3",
    b"q": "put", b"r": "long_put", b"h": "get", b"j": "long_get",
    b"c": "global_", b"R": "reduce", b"b": "build",
}  # fmt: skip
"""The opcodes of the publishers' files, and those that a Python 2 of another day may have written for the same."""


def _names_in(content: bytes) -> list[str]:
    """The first few names that a pickle of any kind asks for and CIFAR files do not, found without following it."""
    names: dict[str, None] = {}
    texts = ["", ""]
    with warnings.catch_warnings(), suppress(ValueError):  # of what no pickle has, or of the end
        warnings.simplefilter("ignore")
        for opcode, value, _ in genops(content[:65536]):
            if isinstance(value, str):
                texts.append(value)
            if opcode.name in ("GLOBAL", "INST"):
                names[str(value).replace(" ", ".")] = None
            elif opcode.name == "STACK_GLOBAL":
                names[".".join(texts[-2:])] = None
    return [_printable(name.encode(errors="replace")) for name in names if name not in ADMITTED][:4]


def _printable(text: bytes) -> str:
    return repr(text[:80])[2:-1]


def _kind(value: Any) -> str:
    """What a value is, in a word; never its content, which may be anything."""
    if isinstance(value, _Named):
        return value.name
    names: dict[type, str] = {_Array: "array", _Type: "type of array", bytes: "byte string", type(None): "null"}
    return names.get(type(value), type(value).__name__)
