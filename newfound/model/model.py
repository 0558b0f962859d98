"""What a run leaves behind: an encoder and a head over old and new categories, as safetensors and JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors import SafetensorError
from torch import Tensor, nn

from newfound._version import __version__
from newfound.errors import UserError
from newfound.files import new_directory
from newfound.memory import ran_out, require_memory, size
from newfound.model.encoder import Encoder
from newfound.model.strangeness import Strangeness
from newfound.nets.heads import Head, build_head
from newfound.strangers import parse_json, read_small
from newfound.tensors import first_not_finite, pack, read_shapes, read_tensors

FORMAT = 5
"""Since 4 a model names its head; since 5 the network tiny has three blocks."""

LARGEST = 2**33
"""Bytes of weights from which on a model is refused, however much memory there is."""
MOST_PIXELS = 1024
"""The widest image that a model may be of: as wide as settings have them."""


class Model(nn.Module):
    """An encoder and a head whose outputs are the known categories, then the novel ones.

    Categories are counted in the order of ``classes``. Whoever needs logits asks ``logits``.
    """

    def __init__(
        self,
        encoder: Encoder,
        head: Head,
        known: tuple[str, ...],
        novel: tuple[str, ...],
        *,
        method: str,
        unit_features: bool = False,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.known, self.novel, self.method, self.unit_features = known, novel, method, unit_features
        self.numbered = False
        """Whether the known categories were given as whole numbers."""
        self.head = head
        self.strangeness: Strangeness | None = None
        self.strangeness_of_backbone = False
        """Whether strangeness is told from the backbone's features, before the encoder's linear layer."""

    @property
    def classes(self) -> tuple[str, ...]:
        return self.known + self.novel

    def features(self, images: Tensor) -> Tensor:
        """Features [N, D] of images: what the categories were found in."""
        return self._features(self.encoder.backbone_features(images))

    def _features(self, backbone: Tensor) -> Tensor:
        features: Tensor = self.encoder.project(backbone)
        return F.normalize(features) if self.unit_features else features

    def forward(self, images: Tensor) -> Tensor:
        """Logits [N, known + novel], float32."""
        return self.logits(self.features(images))

    def logits(self, features: Tensor) -> Tensor:
        """Logits [N, known + novel], float32, of what ``features`` gave."""
        with torch.autocast(features.device.type, enabled=False):  # differences of large numbers: bfloat16 loses them
            logits: Tensor = self.head(features.float())
        return logits

    def judge(self, images: Tensor) -> Tensor:
        """Logits, and in a last column how strange each image is (0 where nothing tells): [N, known + novel + 1]."""
        return self.judge_backbone(self.encoder.backbone_features(images))

    def judge_backbone(self, backbone: Tensor) -> Tensor:
        """What ``judge`` says of images whose backbone features [N, D] are given."""
        features, strange = self._examine(backbone)
        return torch.cat([self.logits(features), strange[:, None]], 1)

    def examine(self, images: Tensor) -> Tensor:
        """Features, and in a last column how strange each image is (0 where nothing tells): [N, D + 1]."""
        features, strange = self._examine(self.encoder.backbone_features(images))
        return torch.cat([features, strange[:, None]], 1)

    def _examine(self, backbone: Tensor) -> tuple[Tensor, Tensor]:
        features = self._features(backbone).float()
        strange = features.new_zeros(features.shape[0])  # not len: a number in an exported graph
        if self.strangeness:
            strange = self.strangeness(backbone.float() if self.strangeness_of_backbone else features)
        return features, strange

    def save(self, path: Path) -> None:
        """Write ``path``/model.safetensors and model.json, both or neither."""
        if path.exists() and not _holds_a_model_alone(path):
            raise UserError(f"{path} exists and holds no model, or more than a model: choose another place to save to")
        path.parent.mkdir(parents=True, exist_ok=True)
        with new_directory(path) as folder:
            (folder / "model.safetensors").write_bytes(pack(self.state_dict()))
            (folder / "model.json").write_text(json.dumps(self._description(), indent=2), encoding="utf-8")

    def _description(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "newfound": __version__,
            "method": self.method,
            "network": self.encoder.network,
            "dimension": self.encoder.dimension,
            "whitened": self.encoder.whitened,
            "image": {"channels": self.encoder.channels, "size": self.encoder.size, "resized": self.encoder.resized},
            "known": list(self.known),
            "novel": list(self.novel),
            "numbered": self.numbered,
            "unit_features": self.unit_features,
            "head": self.head.describe(),
            "strangeness_of_backbone": self.strangeness_of_backbone,
            "exemplars": len(self.strangeness.exemplars) if self.strangeness else 0,
            "held_out": len(self.strangeness.held_out) if self.strangeness else 0,
        }


def _holds_a_model_alone(path: Path) -> bool:
    """Whether saving there replaces a model of ours and nothing else."""
    try:
        if not {file.name for file in path.iterdir()} <= {"model.json", "model.safetensors"}:
            return False
        return "newfound" in parse_json(read_small(path / "model.json"))
    except ValueError:  # damaged: a run that is resumed replaces it
        return True
    except (OSError, TypeError):
        return False


def load_model(path: Path) -> Model:
    """The model saved in that folder, in evaluation mode; nothing in the files is executed."""
    try:
        description = parse_json(read_small(path / "model.json"))
        version = int(description["format"])
    except FileNotFoundError:
        raise UserError(f"there is no model in {path}: model.json is missing") from None
    except (OSError, ValueError, KeyError, TypeError, OverflowError) as error:
        raise UserError(f"{path / 'model.json'} cannot be read: {error}") from None
    if version > FORMAT:
        writer = description.get("newfound", "?")
        raise UserError(f"{path} was written by a newer newfound ({writer}; this is {__version__}): update newfound")
    if version < FORMAT:
        raise UserError(f"{path} was written by an older newfound ({description.get('newfound', '?')}): make it again")
    try:
        with torch.device("meta"):  # takes no memory, which a description could ask too much of
            promised = _from_description(description).state_dict()
        _require_size(promised, path)
    except UserError as error:
        raise UserError(f"{path / 'model.json'}: {error.command_line}") from None
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise UserError(f"{path / 'model.json'} does not describe a model: {error!r}") from None
    try:
        # Before anything is read: a sparse file takes no room on disk, and much in memory.
        _require_shapes(promised, read_shapes(path / "model.safetensors"))
        tensors = read_tensors(path / "model.safetensors")
        model = _from_description(description)
        model.load_state_dict(tensors)
        if name := first_not_finite(model.state_dict()):  # 1e300 in the file is infinite here
            raise ValueError(f"{name} has values that are no finite numbers")
    except UserError:
        raise
    except (OSError, SafetensorError, RuntimeError, ValueError) as error:
        if ran_out(error):
            raise
        reason = " ".join(str(error).split())
        raise UserError(f"{path / 'model.safetensors'} does not hold the weights of this model: {reason}") from None
    return model.eval()


def _require_size(promised: dict[str, Tensor], path: Path) -> None:
    """Stop before memory is taken that a description asks too much of."""
    needed = sum(value.numel() * value.element_size() for value in promised.values())
    if needed > LARGEST:
        raise UserError(f"it describes weights of {size(needed)}, and a model has at most {size(LARGEST)}")
    require_memory(2 * needed, f"the model in {path}")  # as it is read, the file's and the network's


def _require_shapes(promised: dict[str, Tensor], found: dict[str, tuple[int, ...]]) -> None:
    for name in sorted(promised.keys() | found.keys()):
        if name not in found or name not in promised:
            raise ValueError(f"{name[:80]} is {'missing' if name in promised else 'unknown'}")
        if promised[name].shape != found[name]:
            raise ValueError(f"{name} has the shape {list(found[name])}, not {list(promised[name].shape)}")


def _from_description(description: dict[str, Any]) -> Model:
    channels, pixels = int(description["image"]["channels"]), int(description["image"]["size"])
    dimension, resized = int(description["dimension"]), int(description["image"].get("resized", 0))
    most = 2**16 if description["network"] == "features" else 4
    if not (
        1 <= channels <= most and 1 <= pixels <= MOST_PIXELS and 0 <= dimension <= 2**16 and 0 <= resized <= MOST_PIXELS
    ):
        raise ValueError(f"images of {channels} channels and {pixels} pixels, features of dimension {dimension}")
    blank, network = torch.zeros(3 if resized else channels), str(description["network"])
    options: dict[str, Any] = {"dimension": dimension, "resized": resized}
    options["whitened"] = bool(description.get("whitened", False))
    encoder = Encoder(network, channels, pixels, blank, blank + 1, **options)
    known, novel = tuple(map(str, description["known"])), tuple(map(str, description["novel"]))
    unit = bool(description["unit_features"])
    head = build_head(encoder.width, len(known) + len(novel), **description["head"])
    model = Model(encoder, head, known, novel, method=str(description["method"]), unit_features=unit)
    model.numbered = bool(description["numbered"])
    exemplars, held_out = int(description.get("exemplars", 0)), int(description.get("held_out", 0))
    if not (0 <= exemplars <= 2**17 and 0 <= held_out <= 2**20):
        raise ValueError(f"{exemplars} exemplars and {held_out} images held out")
    model.strangeness_of_backbone = bool(description.get("strangeness_of_backbone", False))
    if exemplars:
        width = encoder.net.width if model.strangeness_of_backbone else encoder.width
        model.strangeness = Strangeness(exemplars, width, held_out)
    return model
