"""Between the stages, and not in the paper: labels that go on moving, each view of an image predicting what the
classifier says of the other."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from newfound.config.settings import APLSettings
from newfound.data.collection import Collection
from newfound.engine.device import Beside
from newfound.engine.sampler import Sampler, mixed_sampler
from newfound.engine.stage import Batch, Stage
from newfound.losses.sinkhorn import sinkhorn
from newfound.methods.apl.representation import cross_entropy, one_hot, stage1_views
from newfound.methods.apl.selftraining import two_rates
from newfound.methods.base import of_own_task
from newfound.model import Encoder
from newfound.nets.average import follow, teacher_of
from newfound.nets.heads import CosineClassifier

EACH = 3
"""Unlabelled images in a batch for each novel category: as many as were rehearsed. With one image labels balanced over
the batch are uniform, whatever it shows, and with few they are noise."""

MOST = 0.75
"""The largest share of a batch that is taken for them."""


def refinement_batches(collection: Collection, chosen: APLSettings) -> Sampler:
    """As in stage I, but with EACH unlabelled images for a novel category where these fit into MOST of a batch."""
    batch = min(chosen.refinement.batch, len(collection.labels))
    usual = chosen.labelled_share or collection.n_labelled / len(collection.labels)
    return mixed_sampler(collection, batch, min(usual, 1 - min(EACH * collection.n_novel / batch, MOST)))


class Refinement(Stage):
    """Stage I's encoder trained on, with a cosine classifier over old and new.

    An unlabelled view's label is what the classifier gives the image's other view: soft, over the novel categories, and
    balanced over the batch. Swapped prediction is SwAV's (Caron et al. 2020), with one classifier over old and new
    UNO's (Fini et al. 2021). The network labels for itself, or its moving average, the teacher, does.
    """

    name = "refinement"
    allowed: Tensor

    def __init__(self, encoder: Encoder, head: CosineClassifier, collection: Collection, chosen: APLSettings) -> None:
        super().__init__()
        self.encoder, self.head, self.chosen, self.plan = encoder, head, chosen.refinement, chosen.refinement
        self.sampler = refinement_batches(collection, chosen)
        shown = {} if self.chosen.whole_scale is None else {"whole_scale": self.chosen.whole_scale}
        self.views = stage1_views(chosen, encoder.size, extra=0, **shown)
        if self.chosen.teacher:
            self.teacher = teacher_of(encoder, head)
        self.n_labelled, self.n_known, self.n_novel = collection.n_labelled, len(collection.classes), collection.n_novel
        self.register_buffer("allowed", of_own_task(collection)[1], persistent=False)

    def parameter_groups(self) -> list[dict[str, Any]]:
        return two_rates(self.encoder, self.head, self.plan, self.chosen.backbone_lr)

    def step(self, batch: Batch, t: Tensor) -> dict[str, Tensor]:
        known = self.sampler.pools[0].per_batch
        logits, said = self._passes(batch.views.whole.flatten(0, 1))
        novel = self._labels(said[:, known:, self.n_known :], batch.index[known:] - self.n_labelled)
        truth = one_hot(batch.labels[:known], self.n_known + self.n_novel).expand(2, -1, -1)
        labels = torch.cat([truth, F.pad(novel, (self.n_known, 0))], dim=1)
        agree = (novel[0].argmax(1) == novel[1].argmax(1)).float().mean()
        figures = {"views_agree": agree, "label_certainty": novel.amax(-1).mean()}
        return {"loss": cross_entropy(logits, labels), **figures}

    def _passes(self, whole: Tensor) -> tuple[Tensor, Tensor]:
        """Logits [2, n, C] of the whole views [2n, c, S, S], and those without a gradient that label them: the
        teacher's where there is one, else the same."""
        if not self.chosen.teacher:
            logits = _logits(self.encoder, self.head, whole)
            return logits, logits.detach()
        with Beside("teacher", whole) as beside, torch.no_grad():
            encoder, head = self.teacher
            said = _logits(encoder, head, whole)
        logits = _logits(self.encoder, self.head, whole)
        beside.join(said)
        return logits, said

    def after_step(self, t: Tensor) -> None:
        if self.chosen.teacher:
            follow(self.teacher, self.encoder, self.head, momentum=self.chosen.teacher)

    def _labels(self, logits: Tensor, rows: Tensor) -> Tensor:
        """Labels [2, n, K] of both views of the unlabelled images ``rows`` [n], each from the other's logits
        [2, n, K]."""
        options: dict[str, Any] = {"epsilon": self.chosen.temperature, "rounds": self.chosen.rounds}
        return torch.stack([sinkhorn(other, allowed=self.allowed[rows], **options) for other in logits.flip(0)])


def _logits(encoder: nn.Module, head: nn.Module, whole: Tensor) -> Tensor:
    """Logits [2, n, C] of the whole views [2n, c, S, S]."""
    logits: Tensor = head(encoder(whole))
    return logits.unflatten(0, (2, -1))
