"""MoCo, both versions: each view is to find the other view of its image among a queue of older images' views."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from newfound.config.settings import number
from newfound.engine.schedule import cosine, value_at
from newfound.losses import info_nce
from newfound.methods.instance.base import InstanceLearner
from newfound.nets.ema import ema_copy, ema_update
from newfound.nets.heads import projection
from newfound.views.multiview import Crops


@dataclass(frozen=True)
class MoCoSettings:
    """Contrast with a queue: MoCo's first version, with a linear head."""

    hidden: int = number(0, 0, 2**16)
    """Of the head's MLP; 0 is a linear head."""
    out: int = number(128, 2, 2**16)
    """Outputs of the head."""
    temperature: float = number(0.07, 1e-3)
    """Temperature of the contrast."""
    queue: int = number(4096, 2, 2**20)
    """Keys that wait there. With more than the collection has views, an image is held against itself."""
    momentum: float = number(0.99, 0, 1)
    """Of the key encoder, at the first step; it goes to ``final_momentum`` along a cosine."""
    final_momentum: float = number(0.99, 0, 1)
    """Momentum of the key encoder at the last step."""


@dataclass(frozen=True)
class MoCoV2Settings(MoCoSettings):
    """The second version: an MLP, and a higher temperature."""

    hidden: int = number(2048, 0, 2**16)
    out: int = number(256, 2, 2**16)
    temperature: float = number(0.2, 1e-3)
    queue: int = number(32768, 2, 2**20)
    final_momentum: float = number(0.999, 0, 1)


class MoCo(InstanceLearner):
    """Momentum contrast (He et al. 2020, Chen et al. 2020) between queries and the keys of a slower encoder.

    Each whole view is a query, and its key is the other view's; the keys of both go into one queue. The key encoder has
    batch-norm statistics of its own, by its own passes in training mode. Batches are not shuffled for it: that parts a
    query's batch from its key's where each GPU normalises by its share, and here one GPU has the whole batch.
    """

    queue: Tensor
    pointer: Tensor
    momentum: Tensor

    def __init__(self, encoder: nn.Module, width: int, chosen: MoCoSettings, steps: int) -> None:
        super().__init__()
        self.chosen = chosen
        self.head = projection(width, chosen.hidden, chosen.out)
        self.keys = ema_copy(encoder, self.head)
        self.register_buffer("queue", F.normalize(torch.randn(chosen.queue, chosen.out), dim=1))
        self.register_buffer("pointer", torch.zeros((), dtype=torch.int64))
        momentum = torch.from_numpy(cosine(chosen.momentum, chosen.final_momentum, steps)).float()
        self.register_buffer("momentum", momentum, persistent=False)

    @torch.no_grad()
    def look(self, crops: Crops, t: Tensor) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Unit keys [2, n, O] of the whole views."""
        encoder, head = self.keys
        keys = F.normalize(head(encoder(crops.whole.flatten(0, 1))).float(), dim=1)
        return {"keys": keys.unflatten(0, (2, -1))}, {}

    def loss(
        self,
        encoder: nn.Module,
        features: Tensor,
        crops: Crops,
        looked: Callable[[], dict[str, Tensor]],
        t: Tensor,
        extra: Tensor | None = None,
    ) -> dict[str, Tensor]:
        """InfoNCE, and its share of what it is where all views are alike; writes the keys into the queue."""
        queries = self.head(features)
        keys = looked()["keys"]
        waiting = self.queue.clone()  # the backward pass needs it as it was
        loss = info_nce(queries, keys.flip(0).flatten(0, 1), waiting, temperature=self.chosen.temperature)
        self._enqueue(keys.flatten(0, 1))
        return {"ins": loss, "ins_of_uniform": loss.detach() / math.log(len(waiting) + 1)}

    @torch.no_grad()
    def _enqueue(self, keys: Tensor) -> None:
        """Put the keys [2n, O], or as many as the queue holds, in the place of the oldest."""
        length = len(self.queue)
        keys = keys[:length]
        places = (self.pointer + torch.arange(len(keys), device=keys.device)) % length
        self.queue.index_copy_(0, places, keys)
        self.pointer.add_(len(keys)).remainder_(length)

    def after_step(self, encoder: nn.Module, t: Tensor) -> None:
        """Move the key encoder towards the encoder."""
        ema_update(self.keys, encoder, self.head, momentum=value_at(self.momentum, t))
