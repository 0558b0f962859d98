"""Clusters of the unlabelled images, and the model that assigns to the nearest of their centres."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from newfound.cluster.chosen import cluster
from newfound.config.settings import ClusterSettings
from newfound.data.collection import Collection
from newfound.engine.loop import Engine
from newfound.methods.base import Outcome
from newfound.methods.parts.tasks import by_task, novel_names, predict_candidates
from newfound.model import Encoder, Model
from newfound.nets.heads import LinearClassifier


def find_clusters(
    features: Tensor,
    collection: Collection,
    settings: ClusterSettings,
    engine: Engine,
    title: str = "clustering",
    known: Tensor | None = None,
) -> tuple[Tensor, Tensor, float]:
    """Clusters, task by task, of features [n_unlabelled, D]: the category of each, [n_unlabelled]; the centres
    [candidates, D]; and the inertia of all.

    The categories are novel ones, counted after the known ones. In a mixed pile known categories are clusters, too, to
    which their labelled images, with the features ``known`` [n_labelled, D], belong for good; centres and inertia are
    those of labelled and unlabelled images together.
    """
    assignments = torch.zeros(len(features), dtype=torch.int64, device=features.device)
    n_known = len(collection.classes)
    labels = torch.from_numpy(collection.labels[: collection.n_labelled]).to(features.device)
    found: list[Tensor] = []
    inertia = 0.0
    with engine.reporter.task(title, len(collection.tasks), "tasks") as progress:
        for _, rows, own in by_task(collection, features.device):
            n_novel, pile = own.stop - own.start, features[rows]
            if collection.mixed:
                assert known is not None
                both = torch.cat([known, pile])
                clusters = cluster(both, n_known + n_novel, settings, engine.seed, labels)
                numbers = clusters.labels[len(known) :]
                found.append(clusters.centres[n_known if found else 0 :])
            else:
                clusters = cluster(pile, n_novel, settings, engine.seed)
                numbers = n_known + clusters.labels
                found.append(clusters.centres)
            assignments[rows] = numbers + (numbers >= n_known) * own.start
            inertia += clusters.inertia
            progress.advance(1)
    return assignments, torch.cat(found), inertia


@torch.no_grad()
def cluster_outcome(
    encoder: Encoder,
    collection: Collection,
    settings: ClusterSettings,
    engine: Engine,
    *,
    method: str,
    features: Tensor | None = None,
) -> Outcome:
    """The outcome of clustering the encoder's features, task by task: a model that takes the nearest centre. The
    ``features`` [n_train, D] need not be read again where they are given."""
    first, n_known = collection.n_labelled, len(collection.classes)
    names = collection.classes, novel_names(collection)
    head = LinearClassifier(encoder.width, n_known + collection.n_novel).to(engine.device)
    model = Model(encoder, head, *names, method=method, unit_features=settings.normalise)
    if features is None:
        features = engine.features(model, engine.train_images, title="reading features", of=model.features)
    else:
        features = F.normalize(features) if settings.normalise else features
    assignments, centres, inertia = find_clusters(
        features[first:], collection, settings, engine, known=features[:first]
    )
    nearest_centre(head, features[:first], engine.labels[:first], n_known, centres)
    model.to(engine.device).eval()
    confidence = predict_candidates(model, features[first:], collection).gather(1, assignments[:, None]).squeeze(1)
    return Outcome(model, assignments.cpu().numpy(), confidence.cpu().numpy(), {"inertia": inertia}, features=features)


@torch.no_grad()
def nearest_centre(head: LinearClassifier, features: Tensor, labels: Tensor, n_known: int, found: Tensor) -> None:
    """Make the head choose the nearest of the known categories' means and the clusters' centres ``found`` [K, D]; of
    the latter alone where known categories are clusters, too.

    The squared distance to a centre c is ||f||² - 2 c·f + ||c||², of which the first term is the same for all: a linear
    layer does it. Divided by the mean squared distance of a labelled image to its own mean, logits become soft.
    The paper does not say how the k-means row meets test images; this reading is ours.
    """
    members = F.one_hot(labels, n_known).T.to(features.dtype)
    means = members @ features / members.sum(1, keepdim=True).clamp(min=1)
    scatter = (features - means[labels]).square().sum(1).mean().clamp(min=1e-12)
    centres = torch.cat([means[: len(head.weight) - len(found)], found.to(means)])
    head.weight.copy_(2 * centres / scatter)
    head.bias.copy_(-centres.square().sum(1) / scatter)
