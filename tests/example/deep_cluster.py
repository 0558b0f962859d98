"""Cluster the unlabelled images before every epoch, and learn from the clusters as if they were labels."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F

from newfound.config.settings import ClusterSettings, CropSettings, PlanSettings, Settings
from newfound.engine.sampler import mixed_sampler
from newfound.engine.stage import Stage
from newfound.methods.base import Method
from newfound.methods.parts.clusters import find_clusters
from newfound.methods.parts.encoder import make_encoder
from newfound.methods.parts.outcome import read_outcome
from newfound.methods.parts.tasks import novel_names
from newfound.model import Model
from newfound.nets.heads import classifier
from newfound.views.crop import PadCropFlip


@dataclass(frozen=True)
class DeepClusterSettings(Settings):
    method: str = "deep-cluster"
    views: CropSettings = CropSettings()
    stage1: PlanSettings = PlanSettings(epochs=30, batch=128)
    cluster: ClusterSettings = ClusterSettings()


class Clustered(Stage):
    name = "stage1"

    def __init__(self, encoder, head, collection, settings):
        super().__init__()
        self.encoder, self.head, self.plan, self.cluster = encoder, head, settings.stage1, settings.cluster
        self.views = PadCropFlip(settings.views.pad, settings.views.flip, settings.views.fill)
        self.sampler = mixed_sampler(collection, self.plan.batch)
        self.register_buffer("labels", torch.from_numpy(collection.labels).clone())

    def before_epoch(self, epoch, engine):
        collection = engine.collection
        images = engine.train_images.take(collection.unlabelled)
        features = engine.features(self.encoder, images, title="reading features")
        self.labels[collection.n_labelled :] = find_clusters(features, collection, self.cluster, engine)[0]

    def step(self, batch, t):
        logits = self.head(self.encoder(batch.views)).float()
        return {"loss": F.cross_entropy(logits, self.labels[batch.index])}


class DeepCluster(Method):
    Settings = DeepClusterSettings
    reference = "Caron et al., Deep Clustering for Unsupervised Learning of Visual Features, ECCV"
    year = 2018

    def fit(self, collection, engine, start=None):
        encoder = make_encoder(self.settings.network, collection, start)
        head = classifier("linear", encoder.width, len(collection.classes) + collection.n_novel)
        engine.train(Clustered(encoder, head, collection, self.settings))
        model = Model(encoder, head, collection.classes, novel_names(collection), method="deep-cluster")
        return read_outcome(model, collection, engine)
