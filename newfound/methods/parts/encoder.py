"""The encoder that a method trains: a fresh one, or that of a model it starts from."""

from __future__ import annotations

import copy

from newfound.data.collection import Collection
from newfound.errors import UserError
from newfound.model import Encoder, Model


def make_encoder(network: str, collection: Collection, start: Model | None, *, dimension: int = 0) -> Encoder:
    """An encoder of that network for the collection's images, with fresh weights, or a copy of the one in ``start``."""
    channels, size, _ = collection.train.shape
    if start is None:
        return Encoder(network, channels, size, *collection.train.channel_statistics(), dimension=dimension)
    encoder = start.encoder
    has, wants = (
        f"{name} for images of {side} pixels and {depth} channels, dimension {out}"
        for name, side, depth, out in (
            (encoder.network, encoder.size, encoder.channels, encoder.dimension),
            (network, size, channels, dimension),
        )
    )
    if has != wants:
        raise UserError(f"the model to start from has the network {has}; the settings ask for {wants}")
    return copy.deepcopy(encoder).requires_grad_(True)
