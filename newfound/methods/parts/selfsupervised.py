"""Self-supervised learning on all images, and the methods that cluster what it makes of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from newfound.data.collection import Collection
from newfound.data.look import Look
from newfound.engine.loop import Engine
from newfound.engine.sampler import mixed_sampler
from newfound.engine.stage import Batch, Stage, decay_groups
from newfound.methods.base import Fit, Method, Outcome, fit_network, fit_symbols
from newfound.methods.instance.base import Looking
from newfound.methods.instance.chosen import Name, make_learner
from newfound.methods.parts.clusters import cluster_outcome
from newfound.methods.parts.encoder import make_encoder
from newfound.methods.parts.views import learner_views
from newfound.model import Encoder, Model


class SelfSupervised(Stage):
    """A learner by itself, on labelled and unlabelled images alike; no label is looked at."""

    def __init__(self, plan: str, encoder: Encoder, learner: Name, collection: Collection, settings: Any) -> None:
        """``settings`` have the plan of that name, the ``views``, and a block of the learner's name."""
        super().__init__()
        self.name, self.encoder, self.plan = plan, encoder, getattr(settings, plan)
        self.views = learner_views(settings.views, encoder.size, learner)
        self.sampler = mixed_sampler(collection, self.plan.batch)
        self.learner = make_learner(learner, encoder, settings, self.sampler.steps * self.plan.epochs)

    def parameter_groups(self) -> list[dict[str, Any]]:
        apart = self.learner.groups()
        return [*decay_groups(self, self.plan, leave_out=[p for group in apart for p in group["params"]]), *apart]

    def step(self, batch: Batch, t: Tensor) -> dict[str, Tensor]:
        crops = batch.views
        looked = Looking(self.learner, crops, t)
        whole = crops.whole.flatten(0, 1)
        features = self.encoder(whole) if self.learner.uses_features else whole.new_empty(0)
        parts = self.learner.loss(self.encoder, features, crops, looked, t)
        return {"loss": parts["ins"], **parts, **looked.figures()}

    def after_step(self, t: Tensor) -> None:
        self.learner.after_step(self.encoder, t)

    def warning(self, figures: dict[str, float]) -> str | None:
        return self.learner.warning(figures)


class LearnAndCluster(Method):
    """Self-supervised learning on all images, then one clustering of the unlabelled ones of each task. The learner has
    the method's name."""

    taught = False

    def fit(self, collection: Collection, engine: Engine, start: Model | None = None) -> Outcome:
        encoder = make_encoder(self.settings.network, collection, start)
        engine.train(SelfSupervised("stage1", encoder, self.settings.method, collection, self.settings))
        return cluster_outcome(encoder, collection, self.settings.cluster, engine, method=self.settings.method)

    @classmethod
    def fitted(cls, look: Look, domain: str, device: str, given: Mapping[str, Any]) -> list[Fit]:
        fits = [*fit_network(look, domain, device, given), *super().fitted(look, domain, device, given)]
        fits.append(Fit({"views.domain": domain}))
        return [*fits, *fit_symbols(look, given)] if domain == "symbolic" else fits

    def check(self, shape: tuple[int, int, int]) -> None:
        """Stop where the network cannot take images of that shape, or where their views cannot be made."""
        super().check(shape)
        learner_views(self.settings.views, shape[1], self.settings.method)
