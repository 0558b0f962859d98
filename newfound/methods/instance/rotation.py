"""RotNet: tell by how many quarter turns a view was rotated."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from newfound.methods.instance.base import InstanceLearner
from newfound.nets.norm import frozen_statistics
from newfound.views.multiview import Crops


class Rotation(InstanceLearner):
    """Prediction of the rotation (Gidaris et al. 2018), by a linear layer over the four quarter turns. No settings.

    The four copies of a view go through the encoder together. If the upright one had a pass of its own, batch norm
    would give it away: on the digits, a network trained so takes every image turned by 180 degrees for upright. The
    first whole view is enough, which makes four copies of an image. Where the encoder has passed the whole views
    already, turned ones do not move its running statistics.
    """

    uses_features: ClassVar[bool] = False

    def __init__(self, encoder: nn.Module, width: int, chosen: None, steps: int) -> None:
        super().__init__()
        self.head = nn.Linear(width, 4)

    def loss(
        self,
        encoder: nn.Module,
        features: Tensor,
        crops: Crops,
        looked: Callable[[], dict[str, Tensor]],
        t: Tensor,
        extra: Tensor | None = None,
    ) -> dict[str, Tensor]:
        """The cross-entropy over the turns, its share of that of a guess, and the share of turns that are told."""
        upright = crops.whole[0]
        turned = torch.cat([upright.rot90(turns, (-2, -1)) for turns in range(4)])
        with frozen_statistics(encoder) if len(features) else nullcontext():
            logits = self.head(encoder(turned)).float()
        truth = torch.arange(4, device=logits.device).repeat_interleave(len(upright))
        loss = F.cross_entropy(logits, truth)
        told = (logits.argmax(1) == truth).float().mean()
        return {"ins": loss, "ins_of_uniform": loss.detach() / math.log(4), "turns_told": told}
