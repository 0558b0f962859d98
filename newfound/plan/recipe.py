"""Recipes, complete sets of settings in YAML, and the changes that people make to them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from newfound.config.mapping import brief, cut, from_mapping, load_yaml, override
from newfound.config.settings import Settings
from newfound.errors import UserError, did_you_mean, nearest
from newfound.methods import WITH_BACKBONE, get_method, methods_that, outside, recipe_files
from newfound.strangers import SMALL, parse_yaml, read_small

if TYPE_CHECKING:
    from newfound.methods.base import Method


def default_recipe(method: str, *suffixes: str) -> str:
    """The method's recipe for the first of the suffixes that has one, or the one for all, called as the method is."""
    get_method(method)  # stops if there is none
    names, there = [*(f"{method}-{suffix}" for suffix in suffixes), method], recipe_names()
    if found := next((name for name in names if name in there), None):
        return found
    raise UserError(f"the method {method} has no recipe that fits: name one with --recipe, or a file of settings")


def backbone_changes(
    method: str, backbone: str | None, architecture: str | None, features: bool, cache: Path
) -> dict[str, Any]:
    """The settings that ``backbone``, a network that others have trained, stands for, or that features in the place of
    images do. What the weights are is pinned, so that a run that is resumed goes on with the same ones."""
    if architecture and not backbone:
        raise UserError("--backbone-arch says what is in the file that --backbone names: give both")
    if not backbone and not features:
        return {}
    takes = get_method(method).takes
    if features and "features" not in takes:
        raise UserError(f"--features is for the method {takers('features')}; {method} learns from images")
    if backbone and "backbone" not in takes:
        raise UserError(
            f"--backbone is for the method {takers('backbone')}; {method} trains its network from the start"
        )
    if features:
        if backbone:
            raise UserError("--features are what a network made of images: leave --backbone out")
        return {"network": "features"}
    from newfound.nets.pretrained import find_backbone

    found = find_backbone(str(backbone), cache, architecture)
    return {
        "network": found.network,
        "weights": found.weights,
        "digest": found.digest(),
        "data.size": found.size,
    }


def takers(what: str) -> str:
    """The methods that take that, for a sentence."""
    *others, last = methods_that(lambda found: what in found["takes"])
    return " or ".join([", ".join(others), last] if others else [last])


def check_changes(settings: Any) -> dict[str, Any]:
    """Settings as Python callers give them, dotted names and values; a UserError unless they are a mapping or None."""
    if settings is None:
        return {}
    if not isinstance(settings, Mapping) or not all(isinstance(name, str) for name in settings):
        raise UserError(f'--set takes names and values, such as {{"stage1.epochs": 50}}, not {brief(settings)}')
    return dict(settings)


def resolve_settings(method: str, recipe: str, changes: Mapping[str, Any]) -> Settings:
    """The recipe with ``changes`` over it, checked."""
    chosen = get_method(method)
    mapping = load_recipe(recipe)
    if (other := mapping.get("method")) != method:
        found = other if isinstance(other, str) and len(other) < 80 else brief(other)
        raise UserError(f"the recipe {recipe} is for the method {found}, not {method}")
    if "method" in changes:
        raise UserError("--set method: the method is no setting; choose it with --method")
    settings = _checked(chosen, mapping, f"recipe {recipe}")
    return _checked(chosen, override(mapping, changes), "--set") if changes else settings


def _checked(method: type[Method], mapping: Mapping[str, Any], where: str) -> Settings:
    settings = from_mapping(method.Settings, mapping, where)
    try:
        method(settings).check_settings()
    except UserError as error:
        raise UserError(f"{where}: {error.command_line}") from None
    return settings


def parse_changes(assignments: list[str]) -> dict[str, Any]:
    """What ``--set name=value`` said, values read as YAML."""
    changes = {}
    for text in assignments:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UserError(f"--set {cut(text)}: write it as name=value, for instance --set stage1.epochs=50")
        if name.strip() in changes:
            raise UserError(f"--set {cut(name.strip())} is given more than once: give it once")
        try:
            changes[name.strip()] = parse_yaml(value)
        except ValueError:
            raise UserError(f"--set {cut(text)}: the value cannot be read") from None
    return changes


def recipe_names() -> list[str]:
    """The recipes inside the package, and those of the methods that other packages bring, sorted."""
    return sorted(_recipe_files())


def _recipe_files() -> dict[str, Traversable]:
    folder = resources.files("newfound") / "recipes"
    found = {path.name: path for path in folder.iterdir()}
    brought = {path.name: path for name in outside() for path in recipe_files(name)}
    return {name.removesuffix(".yaml"): path for name, path in (brought | found).items() if name.endswith(".yaml")}


def load_recipe(name: str) -> dict[str, Any]:
    """The recipe of that name, or the YAML file at that path, over what its ``base`` says."""
    mapping = _over_base(name, f"recipe {name}", ())
    if wrong := next((key for key in map(str, mapping) if key.strip().casefold() == "base"), None):
        raise UserError(f"recipe {name}: there is no setting {wrong}; did you mean base?")
    if "method" not in mapping:
        misspelt = {key: nearest(key, ("base", "method")) for key in map(str, mapping)}
        meant = next((f"; by {cut(key)}, did you mean {near[0]}?" for key, near in misspelt.items() if near), "")
        raise UserError(
            f"recipe {name} does not say what it is a recipe of: write base: and the recipe that it differs from, such "
            f"as base: {WITH_BACKBONE}, or method: and a method that `newfound methods` lists{meant}"
        )
    return mapping


def _over_base(name: str, where: str, above: tuple[str, ...]) -> dict[str, Any]:
    """``load_recipe`` for a recipe that those ``above`` have as their base; errors begin with ``where``."""
    packaged = _recipe_files().get(name)
    try:
        place = name if packaged else os.path.realpath(name)
        text = packaged.read_text(encoding="utf-8") if packaged else read_small(Path(name), SMALL).decode("utf-8")
    except (OSError, ValueError):  # there is none, or it is no text, or its name has a null in it
        meant = did_you_mean(os.path.basename(name).removesuffix(".yaml"), recipe_names())
        found = f"there is no recipe {name}, nor a readable file of that name{meant}"
        raise UserError(f"{where}, base: {found}" if above else found) from None
    if place in above:
        raise UserError(f"{where}: base {name} goes in a circle; the last of a chain of recipes has no base")
    mapping = load_yaml(text, f"recipe {name}")
    if "base" not in mapping:
        return mapping
    base = mapping.pop("base")
    if not isinstance(base, str):
        raise UserError(f"recipe {name}: base is {brief(base)}; it has to be the name of a recipe, or a path")
    if base not in recipe_names():
        base = os.path.join(os.path.dirname(name), base)
    return _merged(_over_base(base, f"recipe {name}", (*above, place)), mapping)


def _merged(base: dict[str, Any], mapping: dict[str, Any]) -> dict[str, Any]:
    """``mapping`` over ``base``: nested names one by one, anything else replaced."""
    both = {
        name: _merged(base[name], value)
        for name, value in mapping.items()
        if isinstance(value, dict) and isinstance(base.get(name), dict)
    }
    return base | mapping | both
