"""The paper's k-means row: a classifier of the labelled images, and clusters among the features of the others."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from newfound.cluster.kmeans import Clustering, kmeans
from newfound.cluster.spectral import spectral
from newfound.data.collection import Collection
from newfound.engine.loop import Engine
from newfound.engine.sampler import labelled_sampler
from newfound.engine.stage import Batch, Stage
from newfound.methods.outcome import Outcome, novel_names
from newfound.model import Encoder, Model
from newfound.settings import Cluster, KMeansSettings
from newfound.views.crop import PadCropFlip


class Supervised(Stage):
    """Cross-entropy over the known categories, on labelled images alone."""

    name = "stage1"

    def __init__(self, encoder: Encoder, collection: Collection, settings: KMeansSettings) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = nn.Linear(encoder.width, len(collection.classes))
        self.plan = settings.stage1
        self.views = PadCropFlip(settings.views.pad, settings.views.flip)
        self.sampler = labelled_sampler(collection.labelled, self.plan.batch)

    def step(self, batch: Batch, t: Tensor) -> dict[str, Tensor]:
        logits = self.head(self.encoder(batch.views))
        right = (logits.argmax(1) == batch.labels).float().mean()
        return {"loss": F.cross_entropy(logits.float(), batch.labels), "accuracy": right}


class KMeans:
    """Stage I on the labelled images, then one clustering of the unlabelled ones."""

    def __init__(self, settings: KMeansSettings, n_novel: int) -> None:
        self.settings, self.n_novel = settings, n_novel

    def fit(self, collection: Collection, engine: Engine) -> Outcome:
        channels, size, _ = collection.train.shape
        torch.manual_seed(engine.seed)
        encoder = Encoder(self.settings.network, channels, size, *collection.train.channel_statistics())
        engine.train(Supervised(encoder, collection, self.settings))
        novel = novel_names(self.n_novel, collection.classes)
        model = Model(encoder, collection.classes, novel, method="kmeans", unit_features=self.settings.cluster.normalise)
        features = engine.features(encoder, engine.train_images, title="reading features")
        if model.unit_features:
            features = F.normalize(features)
        clusters = cluster(features[collection.n_labelled :], self.n_novel, self.settings.cluster, engine.seed)
        nearest_centre(model, features[: collection.n_labelled], engine.labels[: collection.n_labelled], clusters)
        model.to(engine.device).eval()
        probabilities = model.classifier(features[collection.n_labelled :])[:, len(novel) * -1 :].softmax(1)
        confidence = probabilities.gather(1, clusters.labels[:, None]).squeeze(1)
        return Outcome(
            model=model,
            assignments=clusters.labels.cpu().numpy(),
            confidence=confidence.detach().cpu().numpy(),
            figures={"inertia": clusters.inertia},
        )


def cluster(features: Tensor, k: int, settings: Cluster, seed: int) -> Clustering:
    """``k`` clusters of features [N, D] by the algorithm of the settings."""
    if settings.algorithm == "spectral":
        return spectral(features, k, neighbours=settings.neighbours, seed=seed)
    return kmeans(features, k, starts=settings.starts, seed=seed)


@torch.no_grad()
def nearest_centre(model: Model, features: Tensor, labels: Tensor, clusters: Clustering) -> None:
    """Make the model's classifier choose the nearest of the known categories' means and the clusters' centres.

    The squared distance to a centre c is ||f||² - 2 c·f + ||c||², of which the first term is the same for all: a linear
    layer does it. Divided by the mean squared distance of a labelled image to its own mean, logits become soft.
    The paper does not say how this row meets test images; this reading is ours.
    """
    members = F.one_hot(labels, len(model.known)).T.to(features.dtype)
    means = members @ features / members.sum(1, keepdim=True).clamp(min=1)
    scatter = (features - means[labels]).square().sum(1).mean().clamp(min=1e-12)
    centres = torch.cat([means, clusters.centres.to(means)])
    model.classifier.weight.copy_(2 * centres / scatter)
    model.classifier.bias.copy_(-centres.square().sum(1) / scatter)
