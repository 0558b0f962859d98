"""Reading files that somebody else may have made: regular files of a limited size, holding plain values.

``read_small`` gives what is in a file, and ``parse_json`` and ``parse_yaml`` the values in such a text. Whatever is
wrong is an OSError or a ValueError that says so in a few words, for the sentence of whoever reads.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path
from typing import Any, NoReturn

import yaml

LARGE = 2**28
"""Bytes of a file with a line for each image or each few steps: ImageNet's 1.3 million images take half of it."""
SMALL = 2**18
"""Bytes of YAML that people write: its parser takes some seconds for so much."""
DEEPEST = 32
"""Lists within lists."""
DIGITS = 40
"""Of a whole number. What needs more is no count, and arithmetic with floating-point numbers fails."""

KINDS = ((stat.S_ISFIFO, "a FIFO"), (stat.S_ISSOCK, "a socket"))


def require_regular(path: Path, most: int | None = None) -> os.stat_result:
    """What the system knows of a regular file of at most so many bytes; it is looked at and not opened, since opening a
    FIFO waits for somebody to write to it."""
    return _check(os.stat(path), path, most)


def read_small(path: Path, most: int = LARGE) -> bytes:
    """What is in a regular file of at most ``most`` bytes. A file of /proc says that it has none, and none are read."""
    require_regular(path, most)
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # no waiting, whatever came there meanwhile
    with open(handle, "rb") as file:
        return file.read(_check(os.fstat(handle), path, most).st_size)


def _check(found: os.stat_result, path: Path, most: int | None) -> os.stat_result:
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(found.st_mode):
        kind = next((name for holds, name in KINDS if holds(found.st_mode)), "a device")
        raise OSError(errno.EINVAL, f"not a regular file ({kind})", str(path))
    if most is not None and found.st_size > most:
        raise OSError(errno.EFBIG, f"too large: {found.st_size:,} bytes, and {most:,} are read at most", str(path))
    return found


def parse_json(text: str | bytes) -> Any:
    """The plain values in JSON text, without huge numbers or lists nested more than DEEPEST deep. Bytes are taken for
    UTF-8; those that are not are kept, as in names of files."""
    if isinstance(text, bytes):  # json would take UTF-16, and halves of characters
        text = text.decode("utf-8", errors="surrogateescape")
    try:
        content = json.loads(text, parse_int=_whole)
    except RecursionError:
        raise ValueError(_too_deep()) from None
    _require_shallow(content)
    if "\\u" in text:
        _require_whole_characters(content)
    return content


def parse_yaml(text: str) -> Any:
    """The plain values in YAML text: as ``parse_json``, and without aliases, tags, dates or binary values."""
    if len(text) > SMALL:
        raise ValueError(f"it has {len(text):,} characters, and {SMALL:,} are read at most")
    try:
        content = yaml.load(text, Loader=_Plain)
    except (yaml.YAMLError, OverflowError) as error:  # the latter of a number to the base of 60
        raise ValueError(" ".join(str(error).split())) from None
    except RecursionError:
        raise ValueError(_too_deep()) from None
    _require_shallow(content)
    if "\\u" in text or "\\U" in text:
        _require_whole_characters(content)
    return content


class _Plain(yaml.SafeLoader):
    """YAML's null, true, numbers, strings, lists and mappings, and nothing else."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - as its base class has it
        first: [(tag, pattern) for tag, pattern in some if not tag.endswith((":timestamp", ":merge", ":value"))]
        for first, some in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()
        if isinstance(event, yaml.AliasEvent):
            _refuse("an alias", event)
        if tag := getattr(event, "tag", None):
            _refuse(f"the tag {tag[:60]}", event)
        return super().compose_node(parent, index)

    def construct_int(self, node: Any) -> int:
        if len(str(node.value)) > DIGITS:
            _refuse(f"a number of more than {DIGITS} digits", node)
        return int(self.construct_yaml_int(node))


_Plain.yaml_constructors = {
    f"tag:yaml.org,2002:{name}": yaml.SafeLoader.yaml_constructors[f"tag:yaml.org,2002:{name}"]
    for name in ("null", "bool", "float", "str", "seq", "map")
}
_Plain.add_constructor("tag:yaml.org,2002:int", _Plain.construct_int)


def _refuse(what: str, where: Any) -> NoReturn:
    raise yaml.constructor.ConstructorError(None, None, f"{what} is not taken", where.start_mark)


def _whole(text: str) -> int:
    if len(text) > DIGITS:
        raise ValueError(f"it has a number of {len(text):,} digits, and {DIGITS} are read at most")
    return int(text)


def _require_whole_characters(content: Any) -> None:
    """A ValueError if there is half of a character, which no file can be written with."""
    try:
        json.dumps(content, ensure_ascii=False).encode(errors="surrogateescape")
    except UnicodeEncodeError:
        raise ValueError("it has half of a character") from None


def _too_deep() -> str:
    return f"it has lists within lists more than {DEEPEST} deep"


def _require_shallow(content: Any) -> None:
    level = [content]
    for _ in range(DEEPEST + 1):
        inside = [list(value.values()) if isinstance(value, dict) else value for value in level]
        level = [value for some in inside if isinstance(some, list) for value in some if isinstance(value, dict | list)]
        if not level:
            return
    raise ValueError(_too_deep())
