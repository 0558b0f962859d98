"""A safetensors file of weights under timm's names: which network they are of, and whether they are all there."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError
from torch import Tensor

from newfound.errors import UserError
from newfound.nets import Net, build
from newfound.nets.vit import PATCH, WIDTHS
from newfound.strangers import require_regular
from newfound.tensors import read_tensors

ARCHITECTURES = ("resnet18-imagenet", "resnet34-imagenet", "resnet50-imagenet", *WIDTHS)
LARGEST = 2**30
"""Bytes of a file of weights: three times what the largest of these networks takes."""
CLASSIFIERS = ("fc.", "head.", "head_dist.")
"""What begins so belongs to the classifier, which is left out."""


def load_file(path: Path, architecture: str | None) -> tuple[str, int, Net]:
    """The name of the network, the image size it is for, and the network itself, from weights in a file.

    The architecture is recognised by the names and shapes of the weights where it is not given. Nothing in the file is
    executed; whatever does not fit is a UserError.
    """
    if architecture is not None and architecture not in ARCHITECTURES:
        raise UserError(f"--backbone-arch {architecture}: it can be {', '.join(ARCHITECTURES)}")
    try:
        require_regular(path, LARGEST)
        everything = read_tensors(path)
    except OSError as error:
        raise UserError(f"the weights {str(path)!r} cannot be read: {(error.strerror or str(error)).lower()}") from None
    except UserError:
        raise
    except (SafetensorError, ValueError, KeyError) as error:
        raise UserError(f"{str(path)!r} cannot be read as a safetensors file: {' '.join(str(error).split())}") from None
    weights = {name: value for name, value in everything.items() if not name.startswith(CLASSIFIERS)}
    name = architecture or _recognise(weights, path)
    size = _size(weights) if name in WIDTHS else 224
    net = build(name, 3, size)
    net.load_state_dict(_fitting(net, weights, f"{str(path)!r} does not hold the weights of {name}"))
    return name, size, net


def _recognise(weights: Mapping[str, Tensor], path: Path) -> str:
    patches = weights.get("patch_embed.proj.weight")
    if patches is not None and patches.ndim == 4:
        for name, width in WIDTHS.items():
            if patches.shape[0] == width and patches.shape[-1] == PATCH:
                return name
    elif "layer1.0.conv3.weight" in weights:
        return "resnet50-imagenet"
    elif "layer3.5.conv1.weight" in weights:
        return "resnet34-imagenet"
    elif "layer1.0.conv1.weight" in weights:
        return "resnet18-imagenet"
    raise UserError(
        f"the network in {str(path)!r} is not recognised by the names of its weights: it has to be one of "
        f"{', '.join(ARCHITECTURES)}, under timm's names"
    )


def _size(weights: Mapping[str, Tensor]) -> int:
    """The image size that a transformer's places are for; 224 where they are of no use."""
    places = weights.get("pos_embed")
    side = math.isqrt(places.shape[1] - 1) if places is not None and places.ndim == 3 and places.shape[1] > 1 else 14
    return PATCH * min(side, 64)


def _fitting(net: Net, weights: Mapping[str, Tensor], complaint: str) -> dict[str, Tensor]:
    """The weights as float32, if they are those of the network, name by name and shape by shape."""
    wanted = net.state_dict()
    if unknown := sorted(set(weights) - set(wanted)):
        raise UserError(f"{complaint}: it has {unknown[0][:80]}, which that network has not ({len(unknown)} such)")
    found = {}
    for name, value in wanted.items():
        given = weights.get(name)
        if given is None and name.endswith("num_batches_tracked"):
            given = value
        if given is None:
            raise UserError(f"{complaint}: {name} is missing")
        if given.shape != value.shape:
            raise UserError(f"{complaint}: {name} has the shape {list(given.shape)}, not {list(value.shape)}")
        if value.is_floating_point() and not given.is_floating_point():
            kind = str(given.dtype).removeprefix("torch.")
            raise UserError(f"{complaint}: {name} has the type {kind}, and weights are floating-point numbers")
        found[name] = given.to(value.dtype)  # of some small types torch cannot tell which values are finite
        if value.is_floating_point() and not found[name].isfinite().all():
            raise UserError(f"{complaint}: {name} has values that are no finite numbers")
    return found
