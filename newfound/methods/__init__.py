"""The methods: each module or folder here is one, and is called as its file is, with - for _.

The first sentence of a method's file says what it does. ``newfound.methods.base`` says what a method has to define,
``parts`` holds what several methods need, ``instance`` the self-supervised learners. Other packages that are installed
may have methods, too: see ``GROUP``.
"""

from __future__ import annotations

import ast
import json
import pkgutil
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from newfound.errors import UserError, did_you_mean

if TYPE_CHECKING:
    from newfound.methods.base import Method

SHARED = ("base", "instance", "parts")
"""Modules here that are no methods."""
GROUP = "newfound.methods"
"""Entry points of other packages, NAME = MODULE: the module defines the method of that name, in a file or folder of its
own, with its recipes beside it."""
NAME = re.compile("[a-z0-9]+(-[a-z0-9]+)*")
"""Of a method."""
PAPER, WITH_BACKBONE, QUICK = "apl", "apl-features", "kmeans"
"""What is taken where nobody chose: for the paper's data sets, with a pretrained network or given features, and where
there is neither such a network nor a GPU."""
MANY_SYMBOLS = 5000
"""Symbols that are enough to train a network of one's own on, where there is a GPU."""
SAID = ("reference", "year", "gpu", "takes", "mixed")
"""What a list of methods says of each, from its class."""
RECORDED = Path(__file__).with_name("recorded.json")
"""Accuracy on the paper's data sets, by method and data set: written by `make results`."""


def method_names() -> list[str]:
    """The methods there are, sorted; none of them is imported for that."""
    return sorted({*_own(), *outside()})


def outside() -> dict[str, list[str]]:
    """The modules of the methods of other packages, by the name of the method; several where packages disagree."""
    found: dict[str, list[str]] = {}
    for point in entry_points(group=GROUP):
        if NAME.fullmatch(point.name) and point.module not in (those := found.setdefault(point.name, [])):
            those.append(point.module)
    return found


@cache
def _own() -> frozenset[str]:
    modules = {module.name for module in pkgutil.iter_modules(__path__)}
    return frozenset(name.replace("_", "-") for name in modules.difference(SHARED))


def get_method(name: str) -> type[Method]:
    """The class of the method of that name."""
    module = import_module(_place(name))
    from newfound.methods.base import Method

    for found in vars(module).values():
        own = isinstance(found, type) and f"{found.__module__}.".startswith(f"{module.__name__}.")
        if own and issubclass(found, Method):
            return found
    raise TypeError(f"{module.__name__} defines no Method")


def package_of(name: str) -> str:
    """The package that has the method."""
    return _place(name).partition(".")[0]


def summary(name: str) -> str:
    """What the method does: the first sentence of its file, which is not imported for that."""
    text = ast.get_docstring(_parsed(_file(_place(name)))) or ""
    return " ".join(text.partition(".\n")[0].removesuffix(".").split())


def said(name: str) -> dict[str, Any]:
    """What the method's class says of itself (``SAID``): of ours read from files, which are not imported for that."""
    place = _place(name)
    if name not in _own():
        return _said_by_class(name, place)
    origin = _file(place)
    own = sorted(origin.parent.rglob("*.py")) if origin.name == "__init__.py" else [origin]
    found = dict(_written(_file(f"{__name__}.base")))
    for path in own:
        found |= _written(path)
    return found


def _said_by_class(name: str, place: str) -> dict[str, Any]:
    _file(place)  # stops if there is none
    try:
        method = get_method(name)
    except Exception as error:
        raise UserError(f"the method {name} of another package, {place}, cannot be imported: {error!r}") from error
    plain = {what: getattr(method, what) for what in SAID}
    return plain | {"takes": sorted(plain["takes"])}


def methods_that(say: Callable[[dict[str, Any]], Any]) -> list[str]:
    """The names of the methods that ``say`` so of themselves, without those that cannot be imported."""
    found = []
    for name in method_names():
        with suppress(UserError):
            if say(said(name)):
                found.append(name)
    return found


def recorded(name: str) -> dict[str, dict[str, Any]]:
    """By data set: the mean accuracy, in per cent, of the recorded runs with the method's own recipe, how many there
    are, and the published figure."""
    found: dict[str, dict[str, Any]] = json.loads(RECORDED.read_text(encoding="utf-8")).get(name, {})
    return found


def default_method(*, domain: str, device: str, images: int, pretrained: bool) -> str:
    """The method that is best on so many images of the domain, on that kind of device; ``pretrained`` says whether a
    pretrained network can be had, and suits the settings that the person gave."""
    enough_symbols = domain == "symbolic" and device == "cuda" and images >= MANY_SYMBOLS
    if pretrained and not enough_symbols:
        return WITH_BACKBONE
    return PAPER if device == "cuda" else QUICK


def recipe_files(name: str) -> list[Path]:
    """The recipes that a method of another package brings: the YAML files beside it that begin with its name."""
    try:
        folder = _file(_place(name)).parent
    except UserError:  # said where the method is asked for
        return []
    return sorted([*folder.glob(f"{name}.yaml"), *folder.glob(f"{name}-*.yaml")])


def _place(name: str) -> str:
    """The module of a method."""
    if name not in method_names():
        raise UserError(f"there is no method {name}{did_you_mean(name, method_names())}")
    places = [f"{__name__}.{name.replace('-', '_')}"] if name in _own() else []
    places += outside().get(name, [])
    if len(places) > 1:
        raise UserError(f"several packages have a method {name}, in {' and '.join(places)}: remove one of them")
    return places[0]


def _file(place: str) -> Path:
    """The file of a module, of which nothing is imported, nor of the packages that it is in."""
    top, *parts = place.split(".")
    try:
        spec = find_spec(top)
    except (ImportError, ValueError):
        spec = None
    if spec is not None and parts:
        folders = [Path(folder, *parts) for folder in spec.submodule_search_locations or ()]
        files = [file for folder in folders for file in (folder.with_name(f"{parts[-1]}.py"), folder / "__init__.py")]
    else:
        files = [Path(spec.origin)] if spec is not None and spec.origin else []
    if there := next((file for file in files if file.is_file()), None):
        return there
    raise UserError(f"an installed package says that it has a method in {place}, but there is no such module")


def _parsed(path: Path) -> ast.Module:
    try:
        return ast.parse(path.read_text(encoding="utf-8"))
    except (SyntaxError, ValueError) as error:
        raise UserError(f"{path}, a method of an installed package, cannot be read: {error}") from None


def _written(path: Path) -> dict[str, Any]:
    """What the class in the file that has ``Settings``, a method's, says of itself in plain values."""
    classes = [node for node in _parsed(path).body if isinstance(node, ast.ClassDef)]
    found = [attributes for attributes in map(dict, map(_attributes, classes)) if "Settings" in attributes]
    return {name: _value(node) for each in found for name, node in each.items() if name in SAID and node}


def _attributes(of: ast.ClassDef) -> Iterator[tuple[str, ast.expr | None]]:
    for node in of.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            yield node.targets[0].id, node.value
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id, node.value


def _value(node: ast.expr) -> Any:
    """A plain value; a set, such as frozenset({"images"}), as a sorted list."""
    found = ast.literal_eval(node.args[0] if isinstance(node, ast.Call) else node)
    return sorted(found) if isinstance(found, set) else found
