"""Which part of a network that others have trained learns on."""

from __future__ import annotations

from newfound.errors import UserError
from newfound.nets import Net
from newfound.nets.given import GivenFeatures
from newfound.nets.timm import Timm


def thaw(net: Net, blocks: int, *, setting: str = "tune.blocks") -> None:
    """Have the last ``blocks`` blocks of the network, and what follows them, learn, and nothing else of it."""
    net.requires_grad_(False)
    if blocks == 0:
        return
    if isinstance(net, GivenFeatures | Timm):
        raise UserError(
            f"{setting} is {blocks}, but given features and networks other than our own cannot be tuned in part: leave "
            "it at 0, or take --backbone efficientnet-lite0"
        )
    if blocks > len(net.blocks):
        raise UserError(f"{setting} is {blocks}, but the network has {len(net.blocks)} blocks: give no more")
    parameters = list(net.parameters())  # in the order in which they are used, but for a transformer's places
    first = next(net.blocks[-blocks].parameters())
    for parameter in parameters[next(i for i, p in enumerate(parameters) if p is first) :]:
        parameter.requires_grad_(True)
