"""Contrast all images, with labels where there are any, and learn categories from pairs that winner-take-all codes call
alike.

WTA-NCD, in one stage from a fresh network. No code of its authors is public: docs/methods/wta.md says what is ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from newfound import nets
from newfound.config.settings import MultiViewSettings, PlanSettings, Settings, number
from newfound.data.collection import Collection
from newfound.data.look import Look
from newfound.engine.loop import Engine
from newfound.engine.sampler import mixed_sampler
from newfound.engine.schedule import ramp_up, value_at
from newfound.engine.stage import Batch, Stage
from newfound.errors import UserError
from newfound.losses import (
    choose_threshold,
    consistency,
    count_pairs,
    joint_contrast,
    pair_likelihood,
    shared_codes,
    wta_codes,
    wta_windows,
)
from newfound.methods.base import Fit, Method, Outcome, fit_whole_views
from newfound.methods.instance.simclr import SimCLRSettings
from newfound.methods.parts.encoder import make_encoder
from newfound.methods.parts.outcome import read_outcome
from newfound.methods.parts.sidebyside import level_parts
from newfound.methods.parts.tasks import allowed_categories, masked_logits, novel_names
from newfound.methods.parts.views import make_views
from newfound.model import Encoder, Model
from newfound.nets.heads import LinearClassifier, projection
from newfound.views.multiview import Crops


@dataclass(frozen=True)
class HashSettings:
    """Winner-take-all codes of features, and from when on two images count as alike."""

    codes: int = number(512, 1, 2**14)
    """Codes of a feature."""
    window: int = number(4, 2, 2**10)
    """Random dimensions of the feature that each code compares."""
    threshold: int = number(0, 0, 2**14)
    """Codes that alike images have in common, at least; 0 chooses it before every epoch, by labelled pairs."""


@dataclass(frozen=True)
class WTASettings(Settings):
    """Settings of WTA-NCD."""

    method: str = "wta"
    views: MultiViewSettings = MultiViewSettings(extra=0)
    contrast: SimCLRSettings = SimCLRSettings(temperature=0.1)
    hash: HashSettings = HashSettings()
    pairwise: float = number(1.0, 0)
    """Weight of the pairwise term."""
    consistency: float = number(5.0, 0)
    """Weight of the consistency of both views' predictions, once it has risen."""
    rising: float = number(0.25, 0, 1)
    """The share of the epochs over which that weight rises."""
    labelled_share: float = number(0.0, 0, 0.99)
    """Labelled images in a batch; 0 takes their share in the collection."""
    discovery: PlanSettings = PlanSettings(epochs=200, batch=512, lr=0.1, warmup_epochs=10)


class Discovery(Stage):
    """Contrast of all images, cross-entropy of labelled ones, likelihood of pairs of unlabelled ones, and consistency
    of two views. The head has two parts, a softmax over the known categories and one over the novel ones."""

    name = "discovery"
    windows: Tensor
    threshold: Tensor
    labelled_pairs: Tensor
    weight: Tensor
    allowed: Tensor

    def __init__(self, encoder: Encoder, collection: Collection, chosen: WTASettings) -> None:
        super().__init__()
        self.encoder, self.chosen, self.plan = encoder, chosen, chosen.discovery
        self.n_known, self.n_labelled = len(collection.classes), collection.n_labelled
        self.head = LinearClassifier(encoder.width, self.n_known + collection.n_novel)
        self.projection = projection(encoder.width, chosen.contrast.hidden, chosen.contrast.out)
        self.views = make_views(chosen.views, encoder.size, extra=0)
        self.sampler = mixed_sampler(collection, self.plan.batch, chosen.labelled_share, one_task=True)
        self.same_share = len(collection.tasks) / collection.n_novel
        codes = chosen.hash.codes
        self.register_buffer("windows", wta_windows(codes, chosen.hash.window, encoder.width))
        # Until labelled pairs have been seen, only images that have all codes in common are alike.
        self.register_buffer("threshold", torch.tensor(chosen.hash.threshold or codes))
        self.register_buffer("labelled_pairs", torch.zeros(2, codes + 1, dtype=torch.int64))
        epochs, steps = self.plan.epochs, self.sampler.steps
        weight = torch.from_numpy(ramp_up(chosen.consistency, chosen.rising * epochs, epochs, steps)).float()
        self.register_buffer("weight", weight, persistent=False)
        self.register_buffer("allowed", allowed_categories(collection)[1], persistent=False)

    def before_epoch(self, epoch: int, engine: Engine) -> None:
        """Choose the threshold by the labelled pairs of the epoch before."""
        if not self.chosen.hash.threshold and self.labelled_pairs[1].any():
            self.threshold.copy_(choose_threshold(self.labelled_pairs, self.same_share))
        self.labelled_pairs.zero_()

    def step(self, batch: Batch, t: Tensor) -> dict[str, Tensor]:
        crops: Crops = batch.views
        first = batch.n_known
        features = self.encoder(crops.whole.flatten(0, 1))
        outputs = self.projection(features).unflatten(0, (2, -1))
        known, novel, allowed = self._logits(features, batch)
        alike = self._alike(features[: len(batch.labels)].detach(), batch)
        known_p, novel_p = known.softmax(-1), novel.softmax(-1)
        parts = {
            "contrast": joint_contrast(outputs, batch.labels, temperature=self.chosen.contrast.temperature),
            "supervised": F.cross_entropy(known[:, :first].flatten(0, 1), batch.labels[:first].repeat(2)),
            "pairwise": pair_likelihood(novel_p[0, first:], novel_p[1, first:], alike),
            "consistency": consistency(*known_p) + consistency(novel_p[0], novel_p[1], allowed),
        }
        loss = parts["contrast"] + parts["supervised"] + self.chosen.pairwise * parts["pairwise"]
        loss = loss + value_at(self.weight, t) * parts["consistency"]
        figures = {"pairs_alike": alike.float().mean(), "threshold": self.threshold.float()}
        return {"loss": loss, **parts, **figures}

    def _logits(self, features: Tensor, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Logits of both views [2, n, known] and [2, n, novel], and which novel categories [n, novel] (bool) each image
        may have; those of another task's are -inf."""
        logits = self.head(features).float().unflatten(0, (2, -1))
        known, novel = logits[..., : self.n_known], logits[..., self.n_known :]
        own = self.allowed[batch.index[batch.n_known :] - self.n_labelled]
        allowed = F.pad(own, (0, 0, batch.n_known, 0), value=True)  # labelled images are of no task
        return known, masked_logits(novel, allowed), allowed

    @torch.no_grad()
    def _alike(self, features: Tensor, batch: Batch) -> Tensor:
        """Which pairs [m, m] of the m unlabelled images are alike by features [n, D] of the batch's first views. What
        labelled pairs have in common is counted."""
        first, window = batch.n_known, self.chosen.hash.window
        codes = wta_codes(features, self.windows)
        seen = shared_codes(codes[:first], window)
        self.labelled_pairs += count_pairs(seen, batch.labels[:first], self.chosen.hash.codes)
        return shared_codes(codes[first:], window) >= self.threshold


class WTA(Method):
    """One stage of discovery; the two parts of its head answer side by side."""

    Settings = WTASettings
    reference = (
        "Jia et al., Joint Representation Learning and Novel Category Discovery on Single- and Multi-modal Data, ICCV"
    )
    year = 2021
    stretched = "discovery"

    def fit(self, collection: Collection, engine: Engine, start: Model | None = None) -> Outcome:
        chosen: WTASettings = self.settings
        stage = Discovery(make_encoder(chosen.network, collection, start), collection, chosen)
        engine.train(stage)
        names = collection.classes, novel_names(collection)
        outcome = read_outcome(Model(stage.encoder, stage.head, *names, method=chosen.method), collection, engine)
        assert outcome.features is not None
        level_parts(stage.head, outcome.features, stage.n_labelled, stage.n_known)
        return outcome

    @classmethod
    def fitted(cls, look: Look, domain: str, device: str, given: Mapping[str, Any]) -> list[Fit]:
        return fit_whole_views(look, domain, device, given)

    def check_settings(self) -> None:
        super().check_settings()
        chosen: HashSettings = self.settings.hash
        if chosen.threshold > chosen.codes:
            raise UserError(
                f"hash.threshold is {chosen.threshold}, but images have no more than {chosen.codes} codes (hash.codes)"
            )

    def check(self, shape: tuple[int, int, int]) -> None:
        """Stop where the network cannot take images of that shape, where their views cannot be made, or where the
        features have fewer dimensions than a code compares."""
        make_views(self.settings.views, shape[1], extra=0)
        with torch.random.fork_rng(devices=[]):
            width = nets.build(self.settings.network, *shape[:2]).width
        if self.settings.hash.window > width:
            window = self.settings.hash.window
            raise UserError(f"hash.window is {window}, but the features have {width} dimensions: give no more")
