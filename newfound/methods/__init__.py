"""The methods: each module or folder here is one, and is called as its file is, with - for _.

The first sentence of a method's file says what it does. ``newfound.methods.base`` says what a method has to define,
``parts`` holds what several methods need, ``instance`` the self-supervised learners.
"""

from __future__ import annotations

import ast
import pkgutil
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from newfound.errors import UserError

if TYPE_CHECKING:
    from newfound.methods.base import Method

SHARED = ("base", "instance", "parts")
"""Modules here that are no methods."""
PAPER, WITH_BACKBONE, QUICK = "apl", "apl-features", "kmeans"
"""What is taken where nobody chose: for the paper's data sets, with a pretrained network or given features, and where
there is neither such a network nor a GPU."""
MANY_SYMBOLS = 5000
"""Symbols that are enough to train a network of one's own on, where there is a GPU."""


def method_names() -> list[str]:
    """The methods there are, sorted; none of them is imported for that."""
    modules = {module.name for module in pkgutil.iter_modules(__path__)}
    return sorted(name.replace("_", "-") for name in modules.difference(SHARED))


def get_method(name: str) -> type[Method]:
    """The class of the method of that name."""
    module = import_module(_place(name))
    from newfound.methods.base import Method

    for found in vars(module).values():
        if isinstance(found, type) and issubclass(found, Method) and found.__module__.startswith(module.__name__):
            return found
    raise TypeError(f"{module.__name__} defines no Method")


def summary(name: str) -> str:
    """What the method does: the first sentence of its file, which is not imported for that."""
    spec = find_spec(_place(name))
    assert spec is not None
    assert spec.origin is not None
    text = ast.get_docstring(ast.parse(Path(spec.origin).read_text(encoding="utf-8"))) or ""
    return " ".join(text.partition(".\n")[0].removesuffix(".").split())


def default_method(*, domain: str, device: str, images: int, pretrained: bool) -> str:
    """The method that is best on so many images of the domain, on that kind of device; ``pretrained`` says whether a
    pretrained network can be had, and suits the settings that the person gave."""
    enough_symbols = domain == "symbolic" and device == "cuda" and images >= MANY_SYMBOLS
    if pretrained and not enough_symbols:
        return WITH_BACKBONE
    return PAPER if device == "cuda" else QUICK


def _place(name: str) -> str:
    if name not in method_names():
        raise UserError(f"there is no method {name}; there are: {', '.join(method_names())}")
    return f"{__name__}.{name.replace('-', '_')}"
