"""Discovery by swapped prediction with several heads: what uno and iic are made of, and apl-plus in part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from newfound.config.settings import MultiViewSettings, PlanSettings, Settings, number
from newfound.data.collection import Collection
from newfound.data.look import Look
from newfound.engine.device import SideStream
from newfound.engine.loop import Engine
from newfound.engine.sampler import mixed_sampler
from newfound.engine.stage import Batch, Stage, decay_groups
from newfound.losses import inter_class, intra_class, swapped_prediction
from newfound.losses.sinkhorn import sinkhorn
from newfound.methods.base import Fit, Method, Outcome, fit_multiviews, fit_network
from newfound.methods.instance.base import InstanceLearner, Looking
from newfound.methods.parts.encoder import make_encoder
from newfound.methods.parts.labels import one_hot
from newfound.methods.parts.outcome import read_outcome
from newfound.methods.parts.shares import due, estimated_shares
from newfound.methods.parts.supervised import Supervised
from newfound.methods.parts.tasks import allowed_categories, first_candidate, masked_logits, novel_names
from newfound.methods.parts.views import check_extra_views, make_views
from newfound.methods.parts.votes import votes
from newfound.model import Encoder, Model
from newfound.nets.heads import CosineClassifier
from newfound.nets.norm import frozen_statistics
from newfound.nets.novelheads import NovelHeads
from newfound.views.multiview import Crops, MultiViews

SYMBOLS = {
    "views.domain": "symbolic",
    "views.extra_size": None,
    "views.padded": 0.0,
    "views.solarise": [0.0, 0.0, 0.0],
    "views.equalise": [0.0, 0.0, 0.0],
}
"""The views of symbols: the full frame, extra ones turned, and strokes that no change of levels makes vanish."""


@dataclass(frozen=True)
class HeadsSettings:
    """The heads over novel categories, and the labels they give."""

    count: int = number(4, 1, 64)
    """Heads, of which one answers."""
    hidden: int = number(2048, 1, 2**14)
    """Units of the hidden layer of each head."""
    bottleneck: int = number(256, 1, 2**14)
    """Units of a head's output, which prototypes are compared with."""
    over: int = number(5, 0, 100)
    """Prototypes for each novel category in the over-clustering heads beside them; 0 leaves those heads out."""
    temperature: float = number(0.1, 1e-3)
    """Temperature of all cosines."""
    epsilon: float = number(0.05, 1e-4)
    """Sinkhorn's temperature: the smaller, the surer the labels."""
    rounds: int = number(3, 1, 1000)
    """Iterations of Sinkhorn's algorithm, which balances the labels."""


@dataclass(frozen=True)
class DiscoverySettings(Settings):
    """Discovery by swapped prediction, beside its views."""

    discovery: PlanSettings = PlanSettings(
        epochs=200, batch=512, lr=0.4, weight_decay=1.5e-4, warmup_epochs=10, final_lr=1e-3
    )
    heads: HeadsSettings = HeadsSettings()
    labelled_share: float = number(0.0, 0, 0.99)
    """Labelled images in a batch; 0 takes their share in the collection."""
    inter: float = number(0.0, 0)
    """Weight of IIC's inter-class term."""
    intra: float = number(0.0, 0)
    """Weight of IIC's intra-class term."""


@dataclass(frozen=True)
class SwappedSettings(DiscoverySettings):
    """Supervised training on labelled images, then discovery on all."""

    views: MultiViewSettings = MultiViewSettings()
    supervised: PlanSettings = PlanSettings(epochs=200, batch=256, lr=0.1, warmup_epochs=10, final_lr=1e-3)


class SwappedPrediction(Stage):
    """One softmax over known and novel categories for each head. A labelled image has its label; an unlabelled view has
    the balanced assignment of the other whole view, and extra views have both whole views'. In a mixed pile the
    assignment is over known and novel categories, in proportion to what they are thought to have of it. A
    self-supervised learner may learn beside it."""

    name = "discovery"
    allowed: Tensor
    head_loss: Tensor
    shares: Tensor

    def __init__(
        self,
        encoder: Encoder,
        known: CosineClassifier,
        collection: Collection,
        chosen: DiscoverySettings,
        views: MultiViews,
        instance: float = 0.0,
        learner: InstanceLearner | None = None,
    ) -> None:
        """``instance`` is the weight of the learner's loss."""
        super().__init__()
        self.encoder, self.known, self.chosen, self.plan, self.views = encoder, known, chosen, chosen.discovery, views
        self.instance, self.learner = instance, learner
        self.sampler = mixed_sampler(collection, self.plan.batch, chosen.labelled_share)
        self.n_labelled, self.n_base, self.n_novel = collection.n_labelled, len(collection.classes), collection.n_novel
        self.heads = self._make_heads(1)
        if chosen.heads.over:
            self.over_heads = self._make_heads(chosen.heads.over)
        self.register_buffer("head_loss", torch.zeros(chosen.heads.count))
        self.mixed, self.first = collection.mixed, first_candidate(collection)
        self.register_buffer("allowed", allowed_categories(collection)[1], persistent=False)
        if self.mixed:
            self.register_buffer("shares", torch.full((self.n_base + self.n_novel,), 1 / (self.n_base + self.n_novel)))

    def _make_heads(self, each: int) -> NovelHeads:
        """Heads with ``each`` prototypes for every novel category."""
        heads = self.chosen.heads
        return NovelHeads(self.encoder.width, each * self.n_novel, heads.count, heads.hidden, heads.bottleneck)

    def parameter_groups(self) -> list[dict[str, Any]]:
        apart = self.learner.groups() if self.learner else []
        return [*decay_groups(self, self.plan, leave_out=[p for group in apart for p in group["params"]]), *apart]

    def before_epoch(self, epoch: int, engine: Engine) -> None:
        self.head_loss.zero_()
        if self.mixed and due(epoch, self.plan.epochs):
            self.shares.copy_(estimated_shares(self.encoder, engine))

    def step(self, batch: Batch, t: Tensor) -> dict[str, Tensor]:
        crops: Crops = batch.views
        if self.learner:
            looked = Looking(self.learner, crops, t)
        whole = self.encoder(crops.whole.flatten(0, 1))
        extra = whole[:0]
        if len(crops.extra):
            with SideStream("extra views", whole) as other, frozen_statistics(self.encoder):
                extra = self.encoder(crops.extra.flatten(0, 1))
            other.join(extra)
        known = self.known(torch.cat([whole, extra])).unflatten(0, (-1, len(batch.labels)))
        logits, targets = self._predict(self.heads, 1, known, whole, extra, batch)
        each = swapped_prediction(logits, targets)
        with torch.no_grad():
            self.head_loss += each
        parts = {"cluster": each.mean()}
        if self.chosen.heads.over:
            parts["over"] = swapped_prediction(
                *self._predict(self.over_heads, self.chosen.heads.over, known, whole, extra, batch)
            ).mean()
        loss = torch.stack(list(parts.values())).mean()
        if self.chosen.inter and not self.mixed:  # a mixed pile has images of the labelled ones' categories
            parts["inter"] = inter_class(logits[:, :, : batch.n_known], logits[:, :, batch.n_known :])
            loss = loss - self.chosen.inter * parts["inter"]
        if self.chosen.intra:
            of_known = intra_class(logits[:, :, : batch.n_known, : self.n_base])
            parts["intra"] = of_known + intra_class(logits[:, :, batch.n_known :, self.first :])
            loss = loss + self.chosen.intra * parts["intra"]
        if self.learner:
            parts |= self.learner.loss(self.encoder, whole, crops, looked, t, extra) | looked.figures()
            loss = loss + self.instance * parts["ins"]
        certainty = targets[:, :, batch.n_known :].amax(-1).mean()
        return {"loss": loss, **parts, "label_certainty": certainty}

    def _predict(
        self, heads: NovelHeads, each: int, known: Tensor, whole: Tensor, extra: Tensor, batch: Batch
    ) -> tuple[Tensor, Tensor]:
        """Logits [H, V, n, known + K] of all views and targets [H, 2, n, known + K] of the whole ones, by heads of K
        outputs, ``each`` for a novel category; from the ``known`` categories' logits [V, n, known] and features
        [V n, D]."""
        n, first, chosen = len(batch.labels), batch.n_known, self.chosen.heads
        cosines = heads(whole)
        if len(extra):
            with frozen_statistics(heads):
                cosines = torch.cat([cosines, heads(extra)], 1)
        cosines = cosines.unflatten(1, (-1, n))
        logits = torch.cat([known.expand(len(cosines), -1, -1, -1), cosines / chosen.temperature], -1)
        with torch.no_grad():
            allowed, columns = self.allowed[batch.index[first:] - self.n_labelled], None
            similarity = cosines[:, :2, first:]
            if self.mixed:
                of_known = known[:2, first:] * chosen.temperature
                similarity = torch.cat([of_known.expand(len(cosines), -1, -1, -1), similarity], -1)
                columns = self._each(self.shares, each)
                columns[self.n_base :] /= each
            allowed = self._each(allowed, each)
            found = sinkhorn(similarity, epsilon=chosen.epsilon, rounds=chosen.rounds, columns=columns, allowed=allowed)
            truth = one_hot(batch.labels[:first], logits.shape[-1]).expand(*found.shape[:2], -1, -1)
            targets = torch.cat([truth, F.pad(found, (self.first, 0))], 2)
        return logits, targets

    def _each(self, of_candidates: Tensor, each: int) -> Tensor:
        """What holds of candidates [..., K], for the outputs of heads that have ``each`` for a novel category."""
        known, novel = of_candidates.split([of_candidates.shape[-1] - self.n_novel, self.n_novel], -1)
        return torch.cat([known, novel.repeat_interleave(each, -1)], -1)

    def after_step(self, t: Tensor) -> None:
        """Bring all prototypes back to unit length."""
        self.known.weight.copy_(F.normalize(self.known.weight, dim=1))
        self.heads.renormalise()
        if self.chosen.heads.over:
            self.over_heads.renormalise()
        if self.learner:
            self.learner.after_step(self.encoder, t)

    def warning(self, figures: dict[str, float]) -> str | None:
        return self.learner.warning(figures) if self.learner else None

    def outcome(self, collection: Collection, engine: Engine) -> Outcome:
        """What the head with the smallest loss in the last epoch says of the unlabelled images; beside it, as earlier
        assignments, the votes of all heads."""
        lead = int(self.head_loss.argmin())
        head, names = self.heads.answer(lead, self.known), (collection.classes, novel_names(collection))
        found = read_outcome(Model(self.encoder, head, *names, method=self.chosen.method), collection, engine)
        assert found.features is not None
        with torch.no_grad():
            pile = found.features[self.n_labelled :]
            logits = self.heads.eval()(pile) / self.chosen.heads.temperature
            if self.mixed:
                logits = torch.cat([self.known(pile).expand(len(logits), -1, -1), logits], -1)
            probabilities = masked_logits(logits, self.allowed).softmax(-1)
            voted = votes(probabilities, lead).masked_fill(~self.allowed, -1).argmax(1)
        return replace(found, earlier={"votes": self.first + voted.cpu().numpy()})


class SwappedMethod(Method):
    """Supervised training with a cosine classifier, then swapped prediction with fresh heads. The head with the
    smallest loss in the last epoch answers."""

    stretched = "discovery"

    def fit(self, collection: Collection, engine: Engine, start: Model | None = None) -> Outcome:
        chosen: SwappedSettings = self.settings
        encoder = make_encoder(chosen.network, collection, start)
        known = CosineClassifier(encoder.width, len(collection.classes), chosen.heads.temperature)
        whole = make_views(chosen.views, encoder.size, extra=0)
        engine.train(Supervised("supervised", encoder, known, collection, chosen.supervised, whole))
        stage = SwappedPrediction(encoder, known, collection, chosen, make_views(chosen.views, encoder.size))
        engine.train(stage)
        return stage.outcome(collection, engine)

    @classmethod
    def fitted(cls, look: Look, domain: str, device: str, given: Mapping[str, Any]) -> list[Fit]:
        fits = [] if domain == "natural" else [Fit(SYMBOLS)]
        return [*fits, *fit_network(look, domain, device, given), *fit_multiviews(look, domain, device, given)]

    def check(self, shape: tuple[int, int, int]) -> None:
        check_extra_views(self.settings.network, shape, make_views(self.settings.views, shape[1]))
