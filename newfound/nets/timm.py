"""Networks of the package timm, where it is installed."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

from torch import Tensor, nn

from newfound.errors import UserError
from newfound.memory import ran_out

TIMM = "timm:"


class Timm(nn.Module):
    """Features [N, width] of images [N, 3, H, W] by a network of timm's, without its classifier.

    ``pretrained`` fetches its weights, from the network if need be; a saved model needs the architecture alone.
    """

    def __init__(self, name: str, pretrained: bool = False) -> None:
        super().__init__()
        plain = name.removeprefix(TIMM)
        # No "hf-hub:" nor paths: the name may come out of a model folder of somebody else's.
        if not re.fullmatch(r"[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)?", plain):
            raise UserError(f"{name[:80]!r} is no network of timm's; write timm:NAME, for instance timm:resnet50")
        try:
            timm: Any = import_module("timm")
        except ImportError as error:
            raise UserError(f"{name} needs the package timm ({error}): pip install timm") from None
        try:
            self.model: nn.Module = timm.create_model(plain, pretrained=pretrained, num_classes=0)
        except Exception as error:  # whatever a download or one of hundreds of constructors may raise
            if ran_out(error):
                raise
            reason = " ".join(str(error).split())[:200]
            raise UserError(f"timm cannot make the network {plain}: {reason}") from None
        self.width = int(self.model.num_features)
        expects: dict[str, Any] = dict(self.model.pretrained_cfg)
        self.size = int(expects["input_size"][-1])
        self.mean, self.deviation = tuple(expects["mean"]), tuple(expects["std"])

    def forward(self, images: Tensor) -> Tensor:
        features: Tensor = self.model(images)
        return features
