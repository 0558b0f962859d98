"""The methods there are: one file a row of the paper's tables."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from newfound.config.settings import APLSettings, FeatureSettings, KMeansSettings, Settings
from newfound.errors import UserError

if TYPE_CHECKING:
    from newfound.methods.base import Method


@dataclass(frozen=True)
class Row:
    """How a method is found: what it does in a line, its settings, and where its class is."""

    summary: str
    settings: type[Settings]
    place: str

    def load(self) -> type[Method]:
        module, _, name = self.place.partition(":")
        method: type[Method] = getattr(import_module(module), name)
        return method


METHODS = {
    "apl": Row(
        "adaptive prototype learning, the paper's method: self-distillation with online prototypes, then self-training",
        APLSettings,
        "newfound.methods.apl.method:APL",
    ),
    "apl-features": Row(
        "APL on the frozen features of a network that others have trained: whitening, clusters, then self-training",
        FeatureSettings,
        "newfound.methods.apl_features.method:FeatureAPL",
    ),
    "kmeans": Row(
        "train a classifier on the labelled images, then cluster the features of the unlabelled ones",
        KMeansSettings,
        "newfound.methods.kmeans:KMeans",
    ),
}


def get_method(name: str) -> Row:
    if name not in METHODS:
        raise UserError(f"there is no method {name}; there are: {', '.join(METHODS)}")
    return METHODS[name]
