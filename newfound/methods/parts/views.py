"""The views of stage I as the settings describe them."""

from __future__ import annotations

import dataclasses
from typing import Any

from newfound.config.settings import MultiViewSettings
from newfound.views.multiview import MultiViews
from newfound.views.natural import natural_views
from newfound.views.symbolic import symbolic_views


def make_views(settings: MultiViewSettings, size: int, **more: Any) -> MultiViews:
    """The views of the settings for images of ``size`` pixels, with ``more`` over them; the domain gives the rest."""
    given = {field.name: getattr(settings, field.name) for field in dataclasses.fields(settings)}
    given.pop("domain")
    changes = {name: value for name, value in given.items() if value is not None} | more
    return (natural_views if settings.domain == "natural" else symbolic_views)(size, **changes)
