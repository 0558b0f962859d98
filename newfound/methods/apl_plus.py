"""Go on from APL's first stage with fresh heads that label views of an image for each other, then self-train.

Ours: the parts are published, their combination is not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from newfound.config.settings import MultiViewSettings, number
from newfound.data.collection import Collection
from newfound.data.look import Look
from newfound.engine.loop import Engine
from newfound.methods.base import Fit, Method, Outcome, fit_multiviews, fit_network
from newfound.methods.instance.base import InstanceLearner
from newfound.methods.instance.chosen import make_learner
from newfound.methods.parts.clusters import cluster_outcome
from newfound.methods.parts.encoder import make_encoder
from newfound.methods.parts.prototypical import PrototypicalSettings
from newfound.methods.parts.representation import Representation
from newfound.methods.parts.selftraining import self_train
from newfound.methods.parts.swapped import SYMBOLS, DiscoverySettings, SwappedPrediction
from newfound.methods.parts.views import check_extra_views, learner_views, make_views
from newfound.model import Model
from newfound.nets.heads import CosineClassifier


@dataclass(frozen=True)
class APLPlusSettings(PrototypicalSettings, DiscoverySettings):
    """APL's two stages, and discovery by swapped prediction between them."""

    method: str = "apl-plus"
    discovery_views: MultiViewSettings = MultiViewSettings()
    """The views of discovery; ``views`` are those of the stages around it."""
    discovery_instance: float = number(0.5, 0)
    """Weight of instance discrimination during discovery; 0 leaves it out."""


class APLPlus(Method):
    """APL's stage I, discovery with fresh heads, APL's stage II."""

    Settings = APLPlusSettings
    reference = "ours: APL, with discovery as in UNO between its stages"
    year = 2026
    mixed = True
    stretched = "discovery"

    def fit(self, collection: Collection, engine: Engine, start: Model | None = None) -> Outcome:
        chosen: APLPlusSettings = self.settings
        encoder = make_encoder(chosen.network, collection, start, dimension=chosen.dimension)
        stage1 = Representation(encoder, collection, chosen)
        engine.train(stage1)
        known = CosineClassifier(encoder.width, len(collection.classes), chosen.heads.temperature)
        views = make_views(chosen.discovery_views, encoder.size)
        stage = SwappedPrediction(encoder, known, collection, chosen, views, chosen.discovery_instance)
        if stage1.learner and chosen.discovery_instance:
            stage.learner = self._go_on(stage1.learner, stage)
        engine.train(stage)
        heads = stage.outcome(collection, engine)
        clusters = cluster_outcome(encoder, collection, chosen.cluster, engine, method=chosen.method)
        earlier = {"heads": heads.assignments, **heads.earlier, "clusters": clusters.assignments}
        first = heads if chosen.selftraining.labels == "online" else clusters
        return self_train(replace(first, earlier=earlier), collection, engine, chosen)

    def _go_on(self, learner: InstanceLearner, stage: SwappedPrediction) -> InstanceLearner:
        """The learner as stage I left it, for the steps of discovery."""
        steps = stage.sampler.steps * stage.plan.epochs
        after = make_learner(self.settings.instance.learner, stage.encoder, self.settings, steps)
        after.load_state_dict(learner.state_dict())
        return after

    @classmethod
    def fitted(cls, look: Look, domain: str, device: str, given: Mapping[str, Any]) -> list[Fit]:
        fits = [] if domain == "natural" else [Fit(SYMBOLS)]
        fits += fit_multiviews(look, domain, device, given)
        return [*fit_network(look, domain, device, given), *map(_for_both_views, fits)]

    def check(self, shape: tuple[int, int, int]) -> None:
        chosen, size = self.settings, shape[1]
        make_views(chosen.views, size)  # stops where they cannot be made, though nothing may look at them
        check_extra_views(chosen.network, shape, learner_views(chosen.views, size, chosen.instance.learner))
        check_extra_views(chosen.network, shape, make_views(chosen.discovery_views, size))

    def encoder_settings(self) -> dict[str, Any]:
        return super().encoder_settings() | {"dimension": self.settings.dimension}

    def later_epochs(self, collection: Collection) -> float:
        """Stage II's, which are shorter than those of discovery."""
        epochs: int = self.settings.selftraining.iterations * self.settings.stage2.epochs
        return epochs


def _for_both_views(fit: Fit) -> Fit:
    """The same for the views of discovery, of what suits ``views``."""
    views = {name: value for name, value in fit.changes.items() if name.startswith("views.")}
    return replace(fit, changes=fit.changes | {f"discovery_{name}": value for name, value in views.items()})
