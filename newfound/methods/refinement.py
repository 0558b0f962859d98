"""After stage II, and not in the paper: labels that go on moving, each view of an image predicting what the classifier
says of the other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from newfound.balance import sinkhorn
from newfound.data.collection import Collection
from newfound.engine.loop import Engine
from newfound.engine.sampler import mixed_sampler
from newfound.engine.stage import Batch, Stage
from newfound.methods.outcome import of_own_task
from newfound.methods.representation import cross_entropy, one_hot, stage1_views
from newfound.methods.selftraining import two_rates
from newfound.model import Encoder
from newfound.settings import APLSettings


class Refinement(Stage):
    """Encoder and classifier trained on, as stage II left them. An unlabelled view's label is what the classifier gives
    the image's other view: soft, over the novel categories, and balanced over the newest logits of all unlabelled
    images. Swapped prediction is SwAV's (Caron et al. 2020), with one classifier over old and new UNO's (Fini et al.
    2021)."""

    name = "refinement"
    bank: Tensor
    allowed: Tensor

    def __init__(
        self, encoder: Encoder, head: nn.Module, collection: Collection, chosen: APLSettings, engine: Engine
    ) -> None:
        super().__init__()
        self.encoder, self.head, self.chosen = encoder, head, chosen.refinement
        self.plan = replace(chosen.stage2, epochs=chosen.refinement.epochs, lr=chosen.refinement.lr)
        self.sampler = mixed_sampler(collection, self.plan.batch, chosen.labelled_share)
        self.views = stage1_views(chosen, encoder.size, extra=0)
        self.n_labelled, self.n_known, self.n_novel = collection.n_labelled, len(collection.classes), collection.n_novel
        self._engine = [engine]  # in a list: it is no part of this module's state
        self.register_buffer("bank", torch.zeros(collection.n_unlabelled, self.n_novel))
        self.register_buffer("allowed", of_own_task(collection)[1], persistent=False)

    def parameter_groups(self) -> list[dict[str, Any]]:
        return two_rates(self.encoder, self.head, self.plan, self.chosen.backbone_lr)

    def before_epoch(self, epoch: int) -> None:
        if epoch == 0:
            engine = self._engine[0]
            images = engine.train_images.take(engine.collection.unlabelled)
            both = nn.Sequential(self.encoder, self.head)
            self.bank.copy_(engine.features(both, images, title="filling the bank")[:, self.n_known :])

    def step(self, batch: Batch, t: Tensor) -> dict[str, Tensor]:
        known = self.sampler.pools[0].per_batch
        logits = self.head(self.encoder(batch.views.whole.flatten(0, 1))).float().unflatten(0, (2, -1))
        novel = self._labels(logits.detach()[:, known:, self.n_known :], batch.index[known:] - self.n_labelled)
        truth = one_hot(batch.labels[:known], self.n_known + self.n_novel).expand(2, -1, -1)
        labels = torch.cat([truth, nn.functional.pad(novel, (self.n_known, 0))], dim=1)
        agreement = (novel[0].argmax(1) == novel[1].argmax(1)).float().mean()
        certainty = novel.amax(-1).mean()
        return {"loss": cross_entropy(logits, labels), "agreement": agreement, "label_certainty": certainty}

    @torch.no_grad()
    def _labels(self, logits: Tensor, rows: Tensor) -> Tensor:
        """Labels [2, n, K] of both views of the unlabelled images ``rows`` [n], each from the other's logits [2, n, K];
        the bank then has the mean of the two."""
        found = []
        for own in logits.flip(0):
            self.bank[rows] = own
            options: dict[str, Any] = {"epsilon": self.chosen.temperature, "rounds": self.chosen.rounds}
            found.append(sinkhorn(self.bank, allowed=self.allowed, **options)[rows])
        self.bank[rows] = logits.mean(0)
        return torch.stack(found)
