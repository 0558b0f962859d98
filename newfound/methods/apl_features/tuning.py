"""Stage II with the last blocks of the backbone: they learn with head and classifier, from views of the images."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from newfound.data.collection import Collection
from newfound.data.vectors import VectorStore
from newfound.engine.sampler import mixed_sampler
from newfound.engine.stage import Batch
from newfound.methods.apl_features.headtraining import HeadTraining
from newfound.methods.apl_features.settings import FeatureSettings
from newfound.methods.parts.backbone import GREY
from newfound.model import Encoder
from newfound.nets.heads import CosineClassifier, Whitened
from newfound.views.crop import PadCropFlip


class Tuning(HeadTraining):
    """What follows HeadTraining, with the same labels and weights, while those parameters of the encoder's network
    learn that require a gradient.

    Views go through the whole network. To keep what enters the first block that learns, of each image and its mirror
    image, would make a step faster, but takes two passes over all images first and much memory, and allows no crops.
    Prototypes come from the features that each image had when it was last seen: to read them all anew before an epoch
    would take as long as the epoch.
    """

    name = "tune"
    seen: Tensor

    def __init__(
        self,
        encoder: Encoder,
        head: CosineClassifier,
        inputs: VectorStore,
        found: Tensor,
        collection: Collection,
        chosen: FeatureSettings,
    ) -> None:
        """``inputs`` are what goes into the encoder's linear layer while its network is as it was; ``found``
        [n_unlabelled] are the categories so far, counted from the first candidate."""
        project = encoder.project
        assert isinstance(project, Whitened)
        super().__init__(project, head, inputs, found, collection, chosen)
        self.register_buffer("seen", super().features().detach())
        # Not the encoder: its linear layer would come twice, and a checkpoint holds nothing twice.
        self.net, self.encode, self.inputs, self.plan = encoder.net, encoder.forward, None, chosen.tune
        self.sampler = mixed_sampler(collection, self.plan.batch, chosen.labelled_share)
        self.views = PadCropFlip(encoder.size // 8, chosen.tune.flip, GREY)

    def train(self, mode: bool = True) -> Tuning:
        """Batch norms keep the statistics of the million images they were trained on: a batch has a few dozen."""
        super().train(False)
        return self

    def features(self) -> Tensor:
        return self.seen

    def step(self, batch: Batch, t: Tensor) -> dict[str, Tensor]:
        vectors = self.encode(batch.views)
        with torch.no_grad():
            self.seen[batch.index] = F.normalize(vectors.float())
        return self.losses(vectors, batch.index)
