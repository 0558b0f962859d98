"""APL, the paper's method, as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from newfound.config.mapping import brief
from newfound.errors import UserError
from newfound.estimator.discoverer import Discoverer


class APL(Discoverer):
    """The paper's method, adaptive prototype learning: a Discoverer whose recipe follows the ``domain`` of the images.

    ``domain`` is "natural" (photographs and the like), "symbolic" (characters, strokes on one background), or "auto":
    as the images look. The other parameters, and the attributes, are those of Discoverer.
    """

    method = "apl"

    def __init__(
        self,
        n_novel: int | str = 2,
        *,
        domain: str = "auto",
        mixed: bool = False,
        recipe: str | None = None,
        settings: Mapping[str, Any] | None = None,
        time: str | float | None = None,
        random_state: int | None = 0,
        device: str = "auto",
        verbose: bool | None = None,
    ) -> None:
        self.n_novel = n_novel
        self.domain = domain
        self.mixed = mixed
        self.recipe = recipe
        self.settings = settings
        self.time = time
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    def _domain(self) -> str | None:
        if self.domain not in ("auto", "natural", "symbolic"):
            raise UserError(f"domain is {brief(self.domain)}; it can be auto, natural or symbolic")
        return None if self.domain == "auto" else self.domain
