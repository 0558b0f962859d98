"""Adaptive prototype learning, the paper's method: self-distillation with online prototypes, then self-training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from newfound.data.collection import Collection
from newfound.data.look import Look
from newfound.engine.loop import Engine
from newfound.errors import UserError
from newfound.methods.base import Fit, Method, Outcome, fit_multiviews, fit_network
from newfound.methods.parts.clusters import cluster_outcome
from newfound.methods.parts.encoder import make_encoder
from newfound.methods.parts.prototypical import PrototypicalSettings
from newfound.methods.parts.representation import Representation
from newfound.methods.parts.selftraining import self_train
from newfound.methods.parts.tasks import first_candidate
from newfound.methods.parts.views import check_extra_views, learner_views, make_views
from newfound.model import Model


@dataclass(frozen=True)
class APLSettings(PrototypicalSettings):
    """The paper's method: its two stages."""

    method: str = "apl"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.selftraining.labels == "online" and not (self.category and self.online):
            raise UserError("selftraining.labels=online needs online prototypes: set category=true and online=true")


class APL(Method):
    """The paper's method, both stages and every switch."""

    Settings = APLSettings
    reference = (
        "Zhang et al., Automatically Discovering Novel Visual Categories with Adaptive Prototype Learning, TPAMI"
    )
    year = 2024
    mixed = True

    def fit(self, collection: Collection, engine: Engine, start: Model | None = None) -> Outcome:
        return self_train(self._represent(collection, engine, start), collection, engine, self.settings)

    def _represent(self, collection: Collection, engine: Engine, start: Model | None) -> Outcome:
        """Stage I, and the categories found in its features: the first pseudo labels of stage II."""
        encoder = make_encoder(self.settings.network, collection, start, dimension=self.settings.dimension)
        stage1 = Representation(encoder, collection, self.settings)
        engine.train(stage1)
        outcome = cluster_outcome(encoder, collection, self.settings.cluster, engine, method=self.settings.method)
        outcome = replace(outcome, earlier={"stage1": outcome.assignments})
        if not stage1.online:
            return outcome
        assert outcome.features is not None
        online = stage1.online_labels(outcome.features[collection.n_labelled :])
        assignments = first_candidate(collection) + online.cpu().numpy()
        outcome = replace(outcome, earlier=outcome.earlier | {"online": assignments})
        return replace(outcome, assignments=assignments) if self.settings.selftraining.labels == "online" else outcome

    @classmethod
    def fitted(cls, look: Look, domain: str, device: str, given: Mapping[str, Any]) -> list[Fit]:
        return [*fit_network(look, domain, device, given), *fit_multiviews(look, domain, device, given)]

    def check(self, shape: tuple[int, int, int]) -> None:
        size = shape[1]
        make_views(self.settings.views, size)  # stops where they cannot be made, though nothing may look at them
        check_extra_views(
            self.settings.network, shape, learner_views(self.settings.views, size, self.settings.instance.learner)
        )

    def encoder_settings(self) -> dict[str, Any]:
        return super().encoder_settings() | {"dimension": self.settings.dimension}

    def later_epochs(self, collection: Collection) -> float:
        """Stage II's. They are shorter than stage I's, so to count them as such is on the safe side."""
        epochs: int = self.settings.selftraining.iterations * self.settings.stage2.epochs
        return epochs
