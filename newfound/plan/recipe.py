"""Recipes, complete sets of settings in YAML, and the changes that people make to them."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from newfound.config.mapping import brief, cut, from_mapping, load_yaml, override
from newfound.config.settings import APLSettings, FeatureSettings, Settings
from newfound.errors import UserError
from newfound.methods import get_method


def default_recipe(method: str, *suffixes: str) -> str:
    """The method's recipe for the first of the suffixes that has one, or the one for all, called as the method is."""
    names = [*(f"{method}-{suffix}" for suffix in suffixes), method]
    return next((name for name in names if name in recipe_names()), names[-2])


def backbone_changes(
    method: str, backbone: str | None, architecture: str | None, features: bool, cache: Path
) -> dict[str, Any]:
    """The settings that ``backbone``, a network that others have trained, stands for, or that features in the place of
    images do. What the weights are is pinned, so that a run that is resumed goes on with the same ones."""
    if architecture and not backbone:
        raise UserError("--backbone-arch says what is in the file that --backbone names: give both")
    if not backbone and not features:
        return {}
    given = "--backbone" if backbone else "--features"
    if not hasattr(get_method(method).settings, "weights"):
        raise UserError(f"{given} is for the method apl-features; {method} trains its network from the start")
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


def check_backbone(settings: Settings, loaded: dict[str, Any], features: bool, cache: Path) -> None:
    """Stop, before a run begins, where its settings name weights that cannot be had; ``loaded`` is what
    ``backbone_changes`` gave, after it had them."""
    if not isinstance(settings, FeatureSettings):
        return
    named = {"network": settings.network, "weights": settings.weights, "digest": settings.digest}
    if named.items() <= ({"weights": "", "digest": ""} | loaded).items():
        return
    if features:
        raise UserError(
            "--features are what a network made of images: settings must not name its network, weights or digest"
        )
    from newfound.nets.pretrained import load_backbone

    load_backbone(cache=cache, **named)


def resolve_settings(method: str, recipe: str, changes: Mapping[str, Any]) -> Settings:
    """The recipe with ``changes`` over it, checked."""
    from newfound import nets  # imports torch

    row = get_method(method)
    mapping = load_recipe(recipe)
    if (other := mapping.get("method")) != method:
        found = other if isinstance(other, str) and len(other) < 80 else brief(other)
        raise UserError(f"the recipe {recipe} is for the method {found}, not {method}")
    if "method" in changes:
        raise UserError("--set method: the method is no setting; choose it with --method")
    from_mapping(row.settings, mapping, f"recipe {recipe}")
    settings = from_mapping(row.settings, override(mapping, changes), "--set")
    frozen = hasattr(row.settings, "weights")
    if settings.network not in nets.NAMES and not (frozen and nets.is_foreign(settings.network)):
        names = ", ".join(nets.NAMES)
        where = "--set" if "network" in changes else f"recipe {recipe}"
        raise UserError(f"{where}: network is {brief(settings.network)}; it can be {names}")
    if isinstance(settings, FeatureSettings) and settings.tune.blocks:
        _check_tuning(settings.network, settings.tune.blocks)
    return settings


def check_network(settings: Settings, channels: int, size: int) -> None:
    """Stop, before a run begins, where its network cannot take images of that shape, or the views that stage I makes of
    them. A network that others have trained has its images resized."""
    import torch

    from newfound import nets

    if isinstance(settings, FeatureSettings):
        return
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        net = nets.build(settings.network, channels, size).eval()
        if not isinstance(settings, APLSettings):
            return
        from newfound.methods.apl.representation import stage1_views

        views = stage1_views(settings, size)
        if not settings.instance:  # the extra views, which are made, are not looked at
            return
        side = views.extra_size if views.extra else size
        try:
            net(torch.zeros(1, channels, side, side))
        except (RuntimeError, ValueError):
            raise UserError(
                f"the network {settings.network} for images of {size} pixels cannot take extra views of {side}: choose "
                f"another network, or --set views.extra_size={size}, or --set views.extra=0 for none"
            ) from None


def _check_tuning(network: str, blocks: int) -> None:
    """Stop, before anything is read, where the network has no such blocks to tune."""
    import torch

    from newfound import nets
    from newfound.nets.thaw import thaw

    with torch.device("meta"):  # takes no memory
        thaw(nets.build(network, 3, 224), blocks)


def parse_changes(assignments: list[str]) -> dict[str, Any]:
    """What ``--set name=value`` said, values read as YAML."""
    changes = {}
    for text in assignments:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UserError(f"--set {cut(text)}: write it as name=value, for instance --set stage1.epochs=50")
        try:
            changes[name.strip()] = yaml.safe_load(value)
        except (yaml.YAMLError, ValueError, RecursionError):  # a date such as 2001-13-45 is a ValueError
            raise UserError(f"--set {cut(text)}: the value cannot be read") from None
    return changes


def recipe_names() -> list[str]:
    """The recipes inside the package, sorted."""
    folder = resources.files("newfound") / "recipes"
    return sorted(p.name.removesuffix(".yaml") for p in folder.iterdir() if p.name.endswith(".yaml"))


def load_recipe(name: str) -> dict[str, Any]:
    """The recipe of that name inside the package, or the YAML file at that path."""
    if name in recipe_names():
        text = (resources.files("newfound") / "recipes" / f"{name}.yaml").read_text(encoding="utf-8")
    else:
        try:
            with open(name, encoding="utf-8") as file:
                text = file.read()
        except (OSError, UnicodeDecodeError):
            known = ", ".join(recipe_names())
            raise UserError(
                f"there is no recipe {name}, nor a readable file of that name; there are: {known}"
            ) from None
    return load_yaml(text, f"recipe {name}")
