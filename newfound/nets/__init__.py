"""Networks from normalised images [N, C, H, W] to features [N, D], where D is the network's ``width``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from newfound.errors import UserError
from newfound.nets.efficientnet import EfficientNetLite
from newfound.nets.given import GivenFeatures
from newfound.nets.normalise import Normalise
from newfound.nets.resnet import ResNet, resnet18, resnet34, resnet50
from newfound.nets.timm import TIMM, Timm
from newfound.nets.tiny import Tiny, tiny
from newfound.nets.vgg import VGG, vgg6
from newfound.nets.vit import PATCH, WIDTHS, ViT

__all__ = ["NAMES", "Net", "Normalise", "build", "resnet18", "tiny", "vgg6"]

Net = ResNet | VGG | Tiny | EfficientNetLite | ViT | Timm | GivenFeatures


_BUILDERS: dict[str, tuple[int, Callable[[int, int], Net]]] = {
    # name: (the smallest image it takes, from channels and image size to the network)
    "resnet18": (1, lambda channels, size: resnet18(channels, stem="cifar")),
    "resnet18-imagenet": (1, lambda channels, size: resnet18(channels, stem="imagenet")),
    "resnet34-imagenet": (1, lambda channels, size: resnet34(channels)),
    "resnet50-imagenet": (1, lambda channels, size: resnet50(channels)),
    "vgg6": (16, lambda channels, size: vgg6(channels, size)),
    "tiny": (8, lambda channels, size: tiny(channels)),
    **{name: (PATCH, partial(ViT, WIDTHS[name])) for name in WIDTHS},
    "features": (1, lambda channels, size: GivenFeatures(channels)),
    "efficientnet-lite0": (32, lambda channels, size: EfficientNetLite(0, channels)),
    "efficientnet-lite1": (32, lambda channels, size: EfficientNetLite(1, channels)),
    "efficientnet-lite2": (32, lambda channels, size: EfficientNetLite(2, channels)),
}

NAMES = tuple(name for name in _BUILDERS if name != "features")
"""Networks of our own for images."""


def is_external(name: str) -> bool:
    """Whether the network is external: features that were given, or a network of timm's."""
    return name == "features" or name.startswith(TIMM)


def build(name: str, channels: int, size: int) -> Net:
    """The network of that name for images [N, channels, size, size], with fresh weights."""
    if name.startswith(TIMM):
        return Timm(name)
    if name not in _BUILDERS:
        raise UserError(f"there is no network named {name!r}; choose one of {', '.join(NAMES)}")
    smallest, make = _BUILDERS[name]
    if size < smallest:
        raise UserError(
            f"the network {name} needs images of at least {smallest} x {smallest} pixels, not {size} x {size}; "
            "choose a larger image size or another network"
        )
    return make(channels, size)
