"""APL, adaptive prototype learning: the paper's method, both stages and every switch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from newfound.config.settings import APLSettings
from newfound.data.collection import Collection
from newfound.engine.features import refresh_statistics
from newfound.engine.loop import Engine
from newfound.methods.apl.refinement import Refinement, refinement_batches
from newfound.methods.apl.representation import Representation
from newfound.methods.apl.selftraining import SelfTraining, class_means, rectification, start_from
from newfound.methods.base import Outcome, novel_names, predict_novel
from newfound.methods.kmeans import cluster_tasks
from newfound.model import Encoder, Model
from newfound.nets.heads import CosineClassifier, LinearClassifier, classifier

Head = LinearClassifier | CosineClassifier
Names = tuple[tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True)
class Represented:
    """What stage I, or the refinement of it, leaves: its encoder, the features [n_train, D] and the pseudo labels
    [n_unlabelled] of stage II, and the outcome if nothing follows."""

    encoder: Encoder
    features: Tensor
    labels: Tensor
    outcome: Outcome


class APL:
    """Stage I on all images, a clustering of the unlabelled ones, the refinement of both where it is asked for, stage
    II."""

    def __init__(self, settings: APLSettings) -> None:
        self.settings = settings

    def fit(self, collection: Collection, engine: Engine) -> Outcome:
        return self.finish(self.represent(collection, engine), collection, engine)

    def finish(self, found: Represented, collection: Collection, engine: Engine) -> Outcome:
        """What follows stage I: the refinement where it is asked for, and stage II. Trains what was ``found`` on."""
        if self._refines(collection, engine):
            found = self._refine(found, collection, engine)
        if self.settings.selftraining.iterations == 0:
            return found.outcome
        return self._self_train(found, collection, engine)

    def represent(self, collection: Collection, engine: Engine) -> Represented:
        """Stage I, and the categories found in its features."""
        chosen = self.settings
        channels, size, _ = collection.train.shape
        torch.manual_seed(engine.seed)
        statistics = collection.train.channel_statistics()
        student = Encoder(chosen.network, channels, size, *statistics, dimension=chosen.dimension)
        stage1 = Representation(student, collection, chosen, engine)
        engine.train(stage1)
        encoder = stage1.readout()
        if chosen.refresh_norm:
            refresh_statistics(encoder, engine.train_images, engine.device, engine.reporter)
        found = self.read(encoder, collection, engine)
        if not stage1.online:
            return found
        online = stage1.online_labels(found.features[collection.n_labelled :])
        outcome = replace(found.outcome, earlier=found.outcome.earlier | {"online": online.cpu().numpy()})
        if chosen.selftraining.labels == "online":
            return replace(found, labels=online, outcome=replace(outcome, assignments=online.cpu().numpy()))
        return replace(found, outcome=outcome)

    def read(self, encoder: Encoder, collection: Collection, engine: Engine) -> Represented:
        """The categories found in the features of stage I's encoder."""
        unit = self.settings.cluster.normalise
        model = Model(encoder, collection.classes, novel_names(collection), method="apl", unit_features=unit)
        features = self._features(model, engine)
        outcome = cluster_tasks(model, features, collection, self.settings.cluster, engine)
        labels = torch.from_numpy(outcome.assignments).to(engine.device)
        return Represented(encoder, features, labels, replace(outcome, earlier={"stage1": outcome.assignments}))

    def _refines(self, collection: Collection, engine: Engine) -> bool:
        """Whether there is a refinement: it is left out, with a warning, where a batch cannot be balanced."""
        if not self.settings.refinement.epochs:
            return False
        unlabelled, k = refinement_batches(collection, self.settings).pools[1].per_batch, collection.n_novel
        if unlabelled < 2 * k:
            engine.reporter.warn(
                f"the refinement is left out: a batch holds {unlabelled} unlabelled images, too few to balance {k} "
                f"novel categories over; try refinement.batch={4 * k}, or refinement.epochs=0 for the paper's stages"
            )
        return unlabelled >= 2 * k

    def _refine(self, found: Represented, collection: Collection, engine: Engine) -> Represented:
        """The refinement, and the categories found anew in its features."""
        n = len(collection.classes) + collection.n_novel
        prototypes = class_means(found.features, joint_labels(engine, found.labels), n)
        head = CosineClassifier(found.encoder.width, n, self.settings.classifier.temperature)
        start_from(head, prototypes, found.features)
        engine.train(Refinement(found.encoder, head, collection, self.settings))
        if self.settings.refresh_norm:
            refresh_statistics(found.encoder, engine.train_images, engine.device, engine.reporter)
        model, earlier = found.outcome.model, found.outcome.earlier
        features = self._features(model, engine)
        outcome = cluster_tasks(model, features, collection, self.settings.cluster, engine)
        labels = torch.from_numpy(outcome.assignments).to(engine.device)
        outcome = replace(outcome, earlier=earlier | {"refinement": outcome.assignments})
        return Represented(found.encoder, features, labels, outcome)

    def _self_train(self, found: Represented, collection: Collection, engine: Engine) -> Outcome:
        """Stage II."""
        chosen, n = self.settings, len(collection.classes) + collection.n_novel
        kind, temperature = chosen.classifier.kind, chosen.classifier.temperature
        encoder, features, novel, earlier = found.encoder, found.features, found.labels, found.outcome.earlier
        names = collection.classes, novel_names(collection)
        for number in range(1, chosen.selftraining.iterations + 1):
            labels = joint_labels(engine, novel)
            prototypes = class_means(features, labels, n)
            if number == 1 or chosen.selftraining.fresh_head:
                head = classifier(kind, encoder.width, n, temperature)
                if chosen.selftraining.start == "prototypes":
                    start_from(head, prototypes, features)
            weights = rectification(features, labels, prototypes, chosen.selftraining.rectify)
            weights[: collection.n_labelled] = 1
            engine.train(SelfTraining(number, encoder, head, collection, chosen, labels, weights, prototypes))
            model, features, confidence, novel = self._read(encoder, head, names, collection, engine)
            earlier = earlier | {f"stage2-{number}": novel.cpu().numpy()}
        figures = {"mean_weight": float(weights[collection.n_labelled :].mean())}
        result = novel.cpu().numpy(), confidence.cpu().numpy()
        return Outcome(model, *result, figures, earlier, features, before=found.features)

    def _read(
        self, encoder: Encoder, head: Head, names: Names, collection: Collection, engine: Engine
    ) -> tuple[Model, Tensor, Tensor, Tensor]:
        """The model, the features [n_train, D], and of unlabelled images the confidence and the category [n_unlabelled]
        that the classifier gives them."""
        model = as_model(encoder, head, names)
        features = self._features(model, engine)
        confidence, novel = predict_novel(model, features[collection.n_labelled :], collection).max(1)
        return model, features, confidence, novel

    def _features(self, model: Model, engine: Engine) -> Tensor:
        """The features [n_train, D] that clusters, prototypes and the classifier's labels come from."""
        of = mirror_averaged(model) if self.settings.flip_average else model.features
        return engine.features(model, engine.train_images, title="reading features", of=of)


def mirror_averaged(model: Model) -> Callable[[Tensor], Tensor]:
    """From images [N, C, H, W] to the mean [N, D] of the encoder's features of each and of its mirror image, brought
    to unit length where the model's are."""

    def features(images: Tensor) -> Tensor:
        mean = (model.encoder(images).float() + model.encoder(images.flip(-1)).float()) / 2
        return F.normalize(mean) if model.unit_features else mean

    return features


def joint_labels(engine: Engine, novel: Tensor) -> Tensor:
    """Labels [n_train] over old and new: the true ones, then pseudo labels ``novel`` [n_unlabelled] after the old."""
    collection = engine.collection
    return torch.cat([engine.labels[: collection.n_labelled], len(collection.classes) + novel])


@torch.no_grad()
def as_model(encoder: Encoder, head: Head, names: Names, *, method: str = "apl") -> Model:
    """The model that encoder and head make; a cosine classifier is a linear one on unit features."""
    model = Model(encoder, *names, method=method, unit_features=isinstance(head, CosineClassifier))
    model.to(head.rows.device)
    if isinstance(head, CosineClassifier):
        model.classifier.weight.copy_(F.normalize(head.rows) / head.temperature)
        model.classifier.bias.zero_()
    else:
        model.classifier.load_state_dict(head.state_dict())
    return model
