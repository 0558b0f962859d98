"""What a trained model says of the unlabelled images."""

from __future__ import annotations

from newfound.data.collection import Collection
from newfound.engine.loop import Engine
from newfound.methods.base import Outcome
from newfound.methods.parts.tasks import predict_candidates
from newfound.model import Model


def read_outcome(model: Model, collection: Collection, engine: Engine) -> Outcome:
    """The category that the model gives each unlabelled image among its candidates, and how sure it is."""
    model.eval()  # a head with batch norm goes by the statistics of training, as the saved model will
    features = engine.features(model, engine.train_images, title="reading features", of=model.features)
    confidence, found = predict_candidates(model, features[collection.n_labelled :], collection).max(1)
    return Outcome(model, found.cpu().numpy(), confidence.cpu().numpy(), features=features)
