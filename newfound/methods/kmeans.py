"""The paper's k-means row: a classifier of the labelled images, and clusters among the features of the others."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from newfound.cluster.consensus import consensus
from newfound.cluster.kmeans import Clustering, kmeans
from newfound.cluster.spectral import spectral
from newfound.cluster.uneven import uneven
from newfound.config.settings import Cluster, KMeansSettings
from newfound.data.collection import Collection
from newfound.engine.loop import Engine
from newfound.engine.sampler import labelled_sampler
from newfound.engine.stage import Batch, Stage
from newfound.methods.base import Outcome, by_task, novel_names, predict_novel
from newfound.model import Encoder, Model
from newfound.views.crop import PadCropFlip


class Supervised(Stage):
    """Cross-entropy over the known categories, on labelled images alone."""

    name = "stage1"

    def __init__(self, encoder: Encoder, collection: Collection, settings: KMeansSettings) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = nn.Linear(encoder.width, len(collection.classes))
        self.plan = settings.stage1
        self.views = PadCropFlip(settings.views.pad, settings.views.flip, settings.views.fill)
        self.sampler = labelled_sampler(collection.labelled, self.plan.batch)

    def step(self, batch: Batch, t: Tensor) -> dict[str, Tensor]:
        logits = self.head(self.encoder(batch.views))
        right = (logits.argmax(1) == batch.labels).float().mean()
        return {"loss": F.cross_entropy(logits.float(), batch.labels), "accuracy": right}


class KMeans:
    """Stage I on the labelled images, then one clustering of the unlabelled ones of each task."""

    def __init__(self, settings: KMeansSettings) -> None:
        self.settings = settings

    def fit(self, collection: Collection, engine: Engine) -> Outcome:
        channels, size, _ = collection.train.shape
        torch.manual_seed(engine.seed)
        encoder = Encoder(self.settings.network, channels, size, *collection.train.channel_statistics())
        engine.train(Supervised(encoder, collection, self.settings))
        unit = self.settings.cluster.normalise
        model = Model(encoder, collection.classes, novel_names(collection), method="kmeans", unit_features=unit)
        features = engine.features(model, engine.train_images, title="reading features", of=model.features)
        return cluster_tasks(model, features, collection, self.settings.cluster, engine)


@torch.no_grad()
def cluster_tasks(model: Model, features: Tensor, collection: Collection, settings: Cluster, engine: Engine) -> Outcome:
    """An outcome from features [n_train, D]: clusters task by task, and a classifier that takes the nearest centre."""
    first = collection.n_labelled
    assignments, centres, inertia = find_clusters(features[first:], collection, settings, engine)
    nearest_centre(model, features[:first], engine.labels[:first], centres)
    model.to(engine.device).eval()
    confidence = predict_novel(model, features[first:], collection).gather(1, assignments[:, None]).squeeze(1)
    return Outcome(model, assignments.cpu().numpy(), confidence.cpu().numpy(), {"inertia": inertia}, features=features)


def find_clusters(
    features: Tensor, collection: Collection, settings: Cluster, engine: Engine, title: str = "clustering"
) -> tuple[Tensor, Tensor, float]:
    """Clusters, task by task, of features [n_unlabelled, D]: which one each is in, [n_unlabelled], the centres
    [n_novel, D], and the inertia of all."""
    assignments = torch.zeros(len(features), dtype=torch.int64, device=features.device)
    found, inertia = [], 0.0
    with engine.reporter.task(title, len(collection.tasks), "tasks") as progress:
        for task, rows, own in by_task(collection, features.device):
            clusters = cluster(features[rows], task.n_novel, settings, engine.seed)
            assignments[rows] = own.start + clusters.labels
            found.append(clusters.centres)
            inertia += clusters.inertia
            progress.advance(1)
    return assignments, torch.cat(found), inertia


def cluster(features: Tensor, k: int, settings: Cluster, seed: int) -> Clustering:
    """``k`` clusters of features [N, D] by the algorithm of the settings."""
    if settings.algorithm == "spectral":
        return spectral(features, k, neighbours=settings.neighbours, seed=seed)
    if settings.algorithm == "consensus":
        return consensus(features, k, starts=settings.starts, seed=seed)
    if settings.algorithm == "uneven":
        return uneven(features, k, starts=settings.starts, seed=seed)
    return kmeans(features, k, starts=settings.starts, seed=seed)


@torch.no_grad()
def nearest_centre(model: Model, features: Tensor, labels: Tensor, novel: Tensor) -> None:
    """Make the model's classifier choose the nearest of the known categories' means and the clusters' centres
    ``novel`` [K, D].

    The squared distance to a centre c is ||f||² - 2 c·f + ||c||², of which the first term is the same for all: a linear
    layer does it. Divided by the mean squared distance of a labelled image to its own mean, logits become soft.
    The paper does not say how this row meets test images; this reading is ours.
    """
    members = F.one_hot(labels, len(model.known)).T.to(features.dtype)
    means = members @ features / members.sum(1, keepdim=True).clamp(min=1)
    scatter = (features - means[labels]).square().sum(1).mean().clamp(min=1e-12)
    centres = torch.cat([means, novel.to(means)])
    model.classifier.weight.copy_(2 * centres / scatter)
    model.classifier.bias.copy_(-centres.square().sum(1) / scatter)
