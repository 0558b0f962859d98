"""Whole and extra views as the settings describe them."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import torch

from newfound import nets
from newfound.config.settings import MultiViewSettings
from newfound.errors import UserError
from newfound.methods.instance.chosen import LEARNERS, Name
from newfound.views.multiview import MultiViews
from newfound.views.natural import natural_views
from newfound.views.symbolic import symbolic_views


def make_views(settings: MultiViewSettings, size: int, **more: Any) -> MultiViews:
    """The views of the settings for images of ``size`` pixels, with ``more`` over them; the domain gives the rest."""
    given = {field.name: getattr(settings, field.name) for field in dataclasses.fields(settings)}
    given.pop("domain")
    changes = {name: value for name, value in given.items() if value is not None} | more
    return (natural_views if settings.domain == "natural" else symbolic_views)(size, **changes)


def check_extra_views(network: str, shape: tuple[int, int, int], views: MultiViews) -> None:
    """Stop where the network cannot take images of that shape (channels, height, width), or the extra views of them."""
    channels, size, _ = shape
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        net = nets.build(network, channels, size).eval()
        if not views.extra:
            return
        side = views.extra_size
        try:
            net(torch.zeros(1, channels, side, side))
        except (RuntimeError, ValueError):
            raise UserError(
                f"the network {network} for images of {size} pixels cannot take extra views of {side}: choose another "
                f"network, or views.extra_size={size}, or views.extra=0 for none"
            ) from None


def learner_views(settings: MultiViewSettings, size: int, learner: Name | Literal["none"]) -> MultiViews:
    """The views for the self-supervised learner of that name, or "none": extra ones only where it looks at them."""
    looks = learner != "none" and LEARNERS[learner].uses_extra
    return make_views(settings, size) if looks else make_views(settings, size, extra=0)
