"""APL on frozen features: for people with few images, from a network that others have trained."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from newfound.cluster.kmeans import kmeans
from newfound.data.collection import Collection
from newfound.data.vectors import VectorStore
from newfound.engine.loop import Engine
from newfound.methods.apl_features.headtraining import HeadTraining
from newfound.methods.apl_features.settings import FeatureSettings
from newfound.methods.apl_features.tuning import Tuning
from newfound.methods.base import Outcome
from newfound.methods.parts.backbone import BackboneMethod, start_whitened
from newfound.methods.parts.clusters import find_clusters
from newfound.methods.parts.labels import class_means, joint_labels
from newfound.methods.parts.tasks import first_candidate, novel_names, predict_candidates
from newfound.model import Model
from newfound.nets.heads import CosineClassifier, Whitened

STARTS = 5
"""Of k-means in a rehearsal, which is quick rather than exact."""


class FeatureAPL(BackboneMethod):
    """Features once, whitened by the known categories; clusters among them; then stage II over a small head that
    starts as the whitening, with a classifier that starts as the categories' means."""

    Settings = FeatureSettings
    reference = "Ours: the second stage of Zhang et al. (apl) over the features of a pretrained network"
    year = 2026
    gpu = False
    takes = frozenset({"images", "features", "backbone"})
    mixed = True
    stretched = ""
    goes_on = False

    def fit(self, collection: Collection, engine: Engine, start: Model | None = None) -> Outcome:
        chosen, first, n_known = self.settings, collection.n_labelled, len(collection.classes)
        encoder, features = self.read(collection, engine, start)
        earlier = {}

        def find(among: Tensor, settings: Any, name: str, title: str) -> Tensor:
            assigned = find_clusters(among[first:], collection, settings, engine, title, known=among[:first])[0]
            earlier[name] = assigned.cpu().numpy()
            return assigned

        single = dataclasses.replace(chosen.cluster, algorithm="kmeans")
        find(features, single, "plain", "clustering plain features")
        project = encoder.project
        assert isinstance(project, Whitened)
        inputs = start_whitened(project.to(engine.device), features, engine.labels[:first], chosen.whitening)
        spread = project.linear(inputs).detach()
        white = F.normalize(spread)
        assigned = find(white, single, "whitened", "clustering whitened features")
        if chosen.cluster.algorithm != "kmeans":
            assigned = find(spread, chosen.cluster, "clusters", "agreeing on clusters")

        n = n_known + collection.n_novel
        head = CosineClassifier(encoder.width, n).to(engine.device)
        with torch.no_grad():
            head.weight.copy_(class_means(white, joint_labels(engine, assigned.cpu().numpy()), n))
        stage = HeadTraining(
            project, head, VectorStore(inputs), assigned - first_candidate(collection), collection, chosen
        )
        engine.train(stage)

        names = collection.classes, novel_names(collection)
        model = Model(encoder, head, *names, method="apl-features", unit_features=True)
        with torch.no_grad():
            trained = F.normalize(project.linear(inputs))
        confidence, found = predict_candidates(model, trained[first:], collection).max(1)
        tuned = chosen.tune.blocks > 0
        if tuned:
            earlier["frozen"] = found.cpu().numpy()
            engine.train(Tuning(encoder, head, VectorStore(inputs), stage.found, collection, chosen))
            trained = self.tuned_features(model, engine)
            confidence, found = predict_candidates(model, trained[first:], collection).max(1)
        return Outcome(
            model,
            found.cpu().numpy(),
            confidence.cpu().numpy(),
            earlier=earlier,
            features=trained,
            features_before_stage2=white,
            backbone_features=features,
            backbone_unchanged=not tuned,
        )

    def looks_to_tune(self) -> int:
        """Every epoch and once afterwards. An epoch's look counts twice, on the safe side: how much of the network
        gradients pass differs."""
        tune = self.settings.tune
        return 2 * tune.epochs + 1 if tune.blocks else 0

    @torch.no_grad()
    def regroup(self, features: Tensor, labels: Tensor, k: int, seed: int) -> tuple[Tensor, Tensor]:
        """Whitening by the labelled features, then k-means among the others."""
        project = Whitened(features.shape[1], self.dimension(features.shape))
        inputs = start_whitened(project, features, labels, self.settings.whitening)
        white = F.normalize(project.linear(inputs))[len(labels) :]
        return kmeans(white, k, starts=STARTS, seed=seed).labels, white
