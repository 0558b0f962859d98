"""Train one classifier over known and novel categories by labels, by what another view of an image is given, and by an
even use of the categories.

SimGCD, over the features of a pretrained network, its last blocks, or a network of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from newfound.config.settings import MultiViewSettings, PlanSettings, number
from newfound.data.collection import Collection
from newfound.data.look import Look
from newfound.data.vectors import VectorStore
from newfound.engine.loop import Engine
from newfound.engine.sampler import mixed_sampler
from newfound.engine.schedule import value_at
from newfound.engine.stage import Batch, Stage, Views
from newfound.losses import joint_contrast, nt_xent, self_distillation, unevenness
from newfound.methods.base import Fit, Outcome, fit_whole_views
from newfound.methods.parts.backbone import GREY, OwnOrBackboneMethod, WhitenedSettings, start_whitened
from newfound.methods.parts.encoder import make_encoder
from newfound.methods.parts.outcome import read_outcome
from newfound.methods.parts.tasks import allowed_categories, first_candidate, novel_names, predict_candidates
from newfound.methods.parts.views import make_views
from newfound.model import Encoder, Model
from newfound.nets.heads import CosineClassifier, Whitened, projection
from newfound.nets.pretrained import is_pretrained
from newfound.views.crop import PadCropFlip
from newfound.views.dropout import FeatureDropout
from newfound.views.multiview import Crops
from newfound.views.twice import Twice

NEVER = -1e4
"""The logit of a category that an image may not have: -inf times a probability of 0 is no number."""


@dataclass(frozen=True)
class TeacherSettings:
    """What a view is given as its label: the other view's probabilities, sharpened."""

    first: float = number(0.07, 1e-3)
    """The temperature at the start."""
    last: float = number(0.04, 1e-3)
    """The temperature once it has fallen."""
    falling: float = number(0.15, 0, 1)
    """The share of the epochs over which it falls."""


@dataclass(frozen=True)
class ContrastSettings:
    """Contrast of views and of labelled images, on a projection of the features."""

    weight: float = number(1.0, 0)
    """Of the contrast, beside that of the categories."""
    hidden: int = number(2048, 0, 2**16)
    """Units of the hidden layer of the projection."""
    out: int = number(256, 2, 2**16)
    """Outputs of the projection."""
    temperature: float = number(1.0, 1e-3)
    """Temperature among all images."""
    known_temperature: float = number(0.07, 1e-3)
    """Temperature among labelled images."""


@dataclass(frozen=True)
class TunedSettings:
    """How much of a pretrained network learns, and from which views."""

    blocks: int = number(0, 0, 1000)
    """The last ones; 0 leaves the network as it is."""
    flip: bool = True
    """Whether half of the views are mirror images; they are not for symbols."""


@dataclass(frozen=True)
class SimGCDSettings(WhitenedSettings):
    """Settings of SimGCD. A ``network`` for which there are no ``weights`` of others is trained from the start."""

    method: str = "simgcd"
    views: MultiViewSettings = MultiViewSettings(extra=0)
    """Of images, for a network that is trained from the start."""
    dropout: float = number(0.5, 0, 0.95)
    """Of the numbers of features, in the views of these."""
    tune: TunedSettings = TunedSettings()
    teacher: TeacherSettings = TeacherSettings()
    contrast: ContrastSettings = ContrastSettings()
    supervised: float = number(0.35, 0, 1)
    """Weight of what labelled images teach; what all images teach has the rest."""
    distillation: float = number(1.0, 0)
    """Weight of self-distillation, in the latter."""
    even: float = number(2.0, 0)
    """Weight of the mean-entropy regulariser, in the latter."""
    labelled_share: float = number(0.5, 0, 0.99)
    """Labelled images in a batch; 0 takes their share in the collection."""
    train: PlanSettings = PlanSettings(
        epochs=200, batch=128, lr=0.1, weight_decay=5e-5, decay_vectors=False, final_lr=1e-4
    )


class Discovery(Stage):
    """The four terms of SimGCD: cross-entropy of labelled images, self-distillation between two views, an even use of
    the categories, and contrast.

    In a mixed pile labelled images are distilled and spread over the categories, too, as published. Otherwise these two
    terms are for the images of the pile, over the novel categories alone.
    """

    name = "train"
    allowed: Tensor
    temperature: Tensor

    def __init__(
        self,
        encode: nn.Module,
        width: int,
        collection: Collection,
        chosen: SimGCDSettings,
        views: Views,
        inputs: VectorStore | None = None,
        keeps_statistics: bool = False,
    ) -> None:
        """``encode`` makes features [n, width] of ``views`` of the images, or of the ``inputs`` in their place. If it
        ``keeps_statistics``, its batch norms go by those that they have."""
        super().__init__()
        self.encode, self.views, self.inputs, self.keeps_statistics = encode, views, inputs, keeps_statistics
        self.chosen, self.plan = chosen, chosen.train
        self.head = CosineClassifier(width, len(collection.classes) + collection.n_novel)
        self.projection = projection(width, chosen.contrast.hidden, chosen.contrast.out)
        self.sampler = mixed_sampler(collection, self.plan.batch, chosen.labelled_share)
        self.mixed, self.n_labelled = collection.mixed, collection.n_labelled
        allowed = F.pad(allowed_categories(collection)[1], (first_candidate(collection), 0))
        self.register_buffer("allowed", allowed, persistent=False)
        temperature = falling(chosen.teacher, self.plan.epochs, self.sampler.steps)
        self.register_buffer("temperature", torch.from_numpy(temperature).float(), persistent=False)

    def train(self, mode: bool = True) -> Discovery:
        super().train(mode)
        if self.keeps_statistics:
            self.encode.eval()
        return self

    def step(self, batch: Batch, t: Tensor) -> dict[str, Tensor]:
        chosen, first, labels = self.chosen, batch.n_known, batch.labels[: batch.n_known]
        both = batch.views.whole if isinstance(batch.views, Crops) else batch.views
        features = self.encode(both.flatten(0, 1))
        logits = self.head(features).unflatten(0, (2, -1))
        outputs = self.projection(features).unflatten(0, (2, -1))
        of_all, of_known = self._contrast(outputs, labels)
        allowed = self.allowed[batch.index[first:] - self.n_labelled]
        if self.mixed:
            allowed = F.pad(allowed, (0, 0, first, 0), value=True)
        found = logits[:, -len(allowed) :].masked_fill(~allowed, NEVER)
        sharper = value_at(self.temperature, t) / self.head.temperature
        parts = {
            "supervised": F.cross_entropy(logits[:, :first].flatten(0, 1), labels.repeat(2)),
            "distillation": self_distillation(
                found, found, found.new_zeros(()), student_temperature=1.0, teacher_temperature=sharper
            ),
            "unevenness": unevenness(found, allowed),
            "contrast": of_all + of_known,
        }
        of_labels = parts["supervised"] + chosen.contrast.weight * of_known
        of_views = chosen.distillation * parts["distillation"] + chosen.even * parts["unevenness"]
        of_views = of_views + chosen.contrast.weight * of_all
        loss = chosen.supervised * of_labels + (1 - chosen.supervised) * of_views
        certainty = found.detach().softmax(-1).amax(-1).mean()
        return {"loss": loss, **parts, "certainty": certainty}

    @torch.no_grad()
    def snapshot(self, rows: np.ndarray, engine: Engine) -> Tensor:
        if self.inputs is None:
            found = engine.features(self.encode, engine.train_images.take(rows), title="")
        else:
            found = self.encode(self.inputs.images[torch.from_numpy(rows)].flatten(1))
        return F.normalize(found) if self.chosen.pretrained else found

    def _contrast(self, outputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """The contrast of all images, from outputs [2, n, D], and of the first ones by their ``labels`` [m]."""
        chosen = self.chosen.contrast
        of_all = nt_xent(outputs, temperature=chosen.temperature)
        if len(labels) < 2:
            return of_all, of_all.new_zeros(())
        return of_all, joint_contrast(outputs[:, : len(labels)], labels, temperature=chosen.known_temperature)


def falling(chosen: TeacherSettings, epochs: int, steps_per_epoch: int) -> np.ndarray:
    """The teacher's temperature of every step, float64 [epochs * steps_per_epoch]: it falls linearly by the epoch."""
    length = round(chosen.falling * epochs)
    fallen = np.linspace(chosen.first, chosen.last, length)
    return np.repeat(np.concatenate([fallen, np.full(epochs - length, chosen.last)]), steps_per_epoch)


class SimGCD(OwnOrBackboneMethod):
    """Parametric classification: one stage, over the whitened features of a pretrained network, over its last blocks,
    or over a network that it trains from the start."""

    Settings = SimGCDSettings
    reference = "Wen et al., Parametric Classification for Generalized Category Discovery: A Baseline Study, ICCV"
    year = 2023
    gpu = False
    takes = frozenset({"images", "features", "backbone"})
    mixed = True
    stretched = "train"
    goes_on = False

    def __init__(self, settings: SimGCDSettings) -> None:
        super().__init__(settings)
        if settings.pretrained and not settings.tune.blocks:
            self.stretched = ""  # reading features takes the time

    def fit(self, collection: Collection, engine: Engine, start: Model | None = None) -> Outcome:
        chosen: SimGCDSettings = self.settings
        if not chosen.pretrained:
            encoder = make_encoder(chosen.network, collection, start)
            views = make_views(chosen.views, encoder.size, extra=0)
            stage = Discovery(encoder, encoder.width, collection, chosen, views)
            engine.train(stage)
            return read_outcome(self._model(encoder, stage, collection), collection, engine)
        encoder, features = self.read(collection, engine, start)
        project, tuned = encoder.project.to(engine.device), chosen.tune.blocks > 0
        assert isinstance(project, Whitened)
        known = engine.labels[: collection.n_labelled]
        inputs = start_whitened(project, features, known, chosen.whitening)
        white = F.normalize(project.linear(inputs)).detach()
        if tuned:
            crops = Twice(PadCropFlip(encoder.size // 8, chosen.tune.flip, GREY))
            stage = Discovery(encoder, encoder.width, collection, chosen, crops, keeps_statistics=True)
        else:
            dropped = Twice(FeatureDropout(inputs.shape[1], chosen.dropout))
            stage = Discovery(project.linear, encoder.width, collection, chosen, dropped, VectorStore(inputs))
        engine.train(stage)
        model = self._model(encoder, stage, collection, unit_features=True)
        with torch.no_grad():
            trained = self.tuned_features(model, engine) if tuned else F.normalize(project.linear(inputs))
        confidence, found = predict_candidates(model, trained[collection.n_labelled :], collection).max(1)
        return Outcome(
            model,
            found.cpu().numpy(),
            confidence.cpu().numpy(),
            features=trained,
            features_before_stage2=white,
            backbone_features=features,
            backbone_unchanged=not tuned,
        )

    def _model(self, encoder: Encoder, stage: Discovery, collection: Collection, **options: bool) -> Model:
        return Model(encoder, stage.head, collection.classes, novel_names(collection), method="simgcd", **options)

    @classmethod
    def fitted(cls, look: Look, domain: str, device: str, given: Mapping[str, Any]) -> list[Fit]:
        """Nothing of a pretrained network depends on the images, but that symbols are not mirrored."""
        if "network" in given and not is_pretrained(str(given["network"]), given.get("weights")):
            return fit_whole_views(look, domain, device, given)
        return [Fit({"tune.flip": False})] if domain == "symbolic" else []

    def check(self, shape: tuple[int, int, int]) -> None:
        super().check(shape)
        if not self.settings.pretrained:
            make_views(self.settings.views, shape[1], extra=0)
