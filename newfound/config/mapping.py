"""From nested dictionaries to settings and back; whatever does not fit is a sentence."""

from __future__ import annotations

import dataclasses
import math
import numbers
import operator
import reprlib
import types
import typing
from collections.abc import Mapping
from typing import Any, Literal, TypeVar

from newfound.errors import UserError, did_you_mean, did_you_mean_one_of, nearest
from newfound.strangers import parse_yaml

T = TypeVar("T")

MOST_CHARACTERS = 80
"""Of a value in a message."""

_brief = reprlib.Repr()
_brief.maxlevel, _brief.maxlist, _brief.maxdict, _brief.maxstring, _brief.maxother = 2, 4, 4, 60, 80


def brief(value: Any) -> str:
    """What a message shows of a value: its beginning, where it is long or lists within lists."""
    try:
        return cut(_brief.repr(value))
    except ValueError:  # a whole number of thousands of digits
        return "a huge number"


def cut(text: str) -> str:
    """The text of a name, or its beginning where it is long."""
    return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 1]}…"


def whole_number(value: Any, name: str) -> int:
    """The value as Python's own whole number, whichever kind of one it is; a UserError calls it ``name``."""
    try:
        return operator.index(value)
    except TypeError:
        raise UserError(f"{name} {brief(value)}: it has to be a whole number") from None


def real_number(value: Any, name: str) -> float:
    """The value as Python's own number, whichever kind of one it is; a UserError calls it ``name``."""
    if not isinstance(value, numbers.Real):
        raise UserError(f"{name} {brief(value)}: it has to be a number")
    return float(value)


def from_mapping(cls: type[T], mapping: Mapping[str, Any], where: str) -> T:
    """An instance of the dataclass ``cls`` from nested dictionaries; whatever does not fit is a UserError."""
    return _from_mapping(cls, mapping, where, "")


def _from_mapping(cls: type[T], mapping: Any, where: str, prefix: str) -> T:
    if not isinstance(mapping, Mapping):
        name = prefix.rstrip(".") or "the file"
        raise UserError(f"{where}: {name} should hold names and values, not {brief(mapping)}")
    hints = typing.get_type_hints(cls)
    known = {f.name: f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    values = {}
    for key, value in mapping.items():
        if key not in known:
            name = cut(key) if isinstance(key, str) else brief(key)
            raise UserError(f"{where}: there is no setting {prefix}{name}{_meant(name, cls, prefix)}")
        values[key] = _convert(value, hints[key], known[key], where, f"{prefix}{key}")
    try:
        return cls(**values)
    except UserError as error:
        raise UserError(f"{where}: {prefix}{error.command_line}") from None


def setting_names(cls: type) -> dict[str, list[str]]:
    """The dotted names of the settings that a dataclass has, by the part that they belong to; those of no part first,
    under ""."""
    hints = typing.get_type_hints(cls)
    own = [f.name for f in dataclasses.fields(cls)]
    parts = [name for name in own if dataclasses.is_dataclass(hints[name])]
    names = {"": [name for name in own if name not in parts]}
    return names | {part: [f"{part}.{f.name}" for f in dataclasses.fields(hints[part])] for part in parts}


def _meant(name: str, cls: type, prefix: str) -> str:
    """The end of a sentence about a setting that a dataclass has not: which one was meant, there or in a part of it; or
    all that there are, of the parts the beginnings alone."""
    names = setting_names(cls)
    parts = [part for part in names if part]
    if nearest(name, [*names[""], *parts]):
        return did_you_mean(name, [f.name for f in dataclasses.fields(cls)], prefix)
    inner = {dotted: dotted.rpartition(".")[2] for part in parts for dotted in names[part]}
    near = nearest(name, dict.fromkeys(inner.values()))
    within = did_you_mean_one_of([f"{prefix}{dotted}" for dotted, last in inner.items() if last in near])
    return within or did_you_mean(name, names[""], prefix, others=[f"{prefix}{part}.…" for part in parts])


def _convert(value: Any, hint: Any, spec: dataclasses.Field[Any], where: str, name: str) -> Any:
    if hasattr(value, "tolist"):  # of numpy, which neither YAML nor JSON can hold
        value = value.tolist()
    if dataclasses.is_dataclass(hint):
        return _from_mapping(typing.cast(type, hint), value, where, f"{name}.")
    origin = typing.get_origin(hint)
    if origin in (types.UnionType, typing.Union):
        if value is None:
            return None
        hint = next(a for a in typing.get_args(hint) if a is not types.NoneType)
        origin = typing.get_origin(hint)
    if origin is Literal:
        if value not in typing.get_args(hint):
            choices = ", ".join(map(str, typing.get_args(hint)))
            raise UserError(f"{where}: {name} is {brief(value)}; it can be {choices}")
        return value
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise UserError(f"{where}: {name} should be a list, not {brief(value)}")
        return tuple(_scalar(v, typing.get_args(hint)[0], where, name) for v in value)
    value = _scalar(value, hint, where, name)
    low, high = spec.metadata.get("range", (None, None))
    if low is not None and not low <= value <= high:
        limit = f"at least {low:,}" if high == math.inf else f"from {low:,} to {high:,}"
        raise UserError(f"{where}: {name} is {brief(value)}; it has to be {limit}")
    return value


def _scalar(value: Any, hint: Any, where: str, name: str) -> Any:
    if hint is float and not isinstance(value, bool):
        try:  # YAML reads 1e-4 as a string
            found = float(value)
        except (TypeError, ValueError, OverflowError):
            pass
        else:
            if not math.isfinite(found):
                raise UserError(f"{where}: {name} is {brief(value)}; it has to be finite")
            return found
    elif type(value) is hint:
        return value
    raise UserError(f"{where}: {name} should be of type {hint.__name__}, not {brief(value)}")


def to_mapping(settings: Any) -> dict[str, Any]:
    """Nested dictionaries of plain values, as YAML and JSON can hold them."""
    plain: dict[str, Any] = dataclasses.asdict(settings)
    return _plain(plain)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    return list(value) if isinstance(value, tuple) else value


def values_of(settings: Any, kind: type[T]) -> dict[str, T]:
    """The values of settings that are of one class, such as the plans of all stages, by name."""
    values = {field.name: getattr(settings, field.name) for field in dataclasses.fields(settings)}
    return {name: value for name, value in values.items() if isinstance(value, kind)}


def override(mapping: dict[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of nested ``mapping`` with dotted names such as ``stage1.epochs`` replaced."""
    result = {k: dict(v) if isinstance(v, dict) else v for k, v in mapping.items()}
    for dotted, value in changes.items():
        *path, last = dotted.split(".")
        inner = result
        for part in path:
            below = inner.get(part)
            inner[part] = dict(below) if isinstance(below, dict) else {}
            inner = inner[part]
        inner[last] = value
    return result


def load_yaml(text: str, where: str) -> dict[str, Any]:
    """A mapping from YAML text of plain values."""
    try:
        mapping = parse_yaml(text)
    except ValueError as error:
        raise UserError(f"{where} is not valid YAML of plain values: {error}") from None
    if not isinstance(mapping, dict):
        raise UserError(f"{where} should hold names and values")
    return mapping
