"""What a method is, what it gives back, and the one way to run it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from newfound import nets
from newfound.cluster.chosen import cluster
from newfound.config.choice import Choice
from newfound.config.mapping import brief
from newfound.config.settings import ClusterSettings, Settings
from newfound.data.collection import Collection
from newfound.data.look import Look
from newfound.engine.loop import Engine
from newfound.errors import UserError
from newfound.methods import get_method, methods_that
from newfound.model import Model
from newfound.model.strangeness import learn_exemplars

MAX_SIDE = {"natural": {"cpu": 32, "cuda": 64}, "symbolic": {"cpu": 32, "cuda": 32}}
"""Pixels at the most that a network is trained on from the start: time grows with their square."""

SMALL = {"natural": "tiny", "symbolic": "vgg6"}
"""Networks to train on a CPU: vgg6 keeps the places of strokes, which tiny averages away."""


@dataclass(frozen=True)
class Outcome:
    """A model over old and new categories, and the category of every unlabelled training image.

    ``assignments`` [n_unlabelled] counts into ``model.classes``; ``confidence`` [n_unlabelled] is in 0..1: the model's
    own probability, or, once it is ``calibrated``, that of being right.
    """

    model: Model
    assignments: np.ndarray
    confidence: np.ndarray
    figures: dict[str, Any] = field(default_factory=dict)
    earlier: dict[str, np.ndarray] = field(default_factory=dict)
    """Assignments on the way to the last ones, by where they were made; evaluated beside them."""
    features: Tensor | None = None
    """What the categories were found in: [n_train, D], the labelled images first. For the report."""
    features_before_stage2: Tensor | None = None
    """The same from before self-training, which draws together what it found; None where it is no different."""
    backbone_features: Tensor | None = None
    """Features [n_train, D] that no label has touched: for rehearsals, and to tell strange images. None where the
    labels trained the network."""
    backbone_unchanged: bool = True
    """Whether the model's own backbone gives ``backbone_features``; once tuned it gives others."""
    taught: bool = True
    """Whether the labels of known categories taught the method anything; run_method takes it from the method."""
    calibrated: bool = False
    test_features: Tensor | None = None
    """Features [n_test, D] of the test images, for the evaluation; None where there are none."""


class Method(ABC):
    """A method of category discovery: made from its settings, it fits a Collection with an Engine.

    A method is one file (or folder) in newfound/methods, with a settings class whose ``method`` is its name, and a
    recipe. Everything that commands, the estimator, time budgets and trust need to know of it is said here.
    """

    Settings: ClassVar[type[Settings]]
    reference: ClassVar[str] = ""
    """Who published it, as what and where: "Fini et al., A Unified Objective for Novel Class Discovery, ICCV"."""
    year: ClassVar[int] = 0
    gpu: ClassVar[bool] = True
    """Whether a GPU is advised: without one it takes too long on more than a few small images."""
    takes: ClassVar[frozenset[str]] = frozenset({"images"})
    """What it can learn from: "images", "features" that were computed before, a pretrained "backbone"."""
    mixed: ClassVar[bool] = False
    """Whether it takes mixed piles, in which images of known categories may hide."""
    taught: bool = True
    """Whether the labels of known categories teach its features anything."""
    stretched: str = "stage1"
    """The plan whose epochs a time budget changes, and snapshots count; "" for none."""
    goes_on: bool = True
    """Whether a later run with more images goes on from the network of the one before; a network that stays as it is
    has nothing to go on from."""

    def __init__(self, settings: Any) -> None:
        self.settings = settings

    @abstractmethod
    def fit(self, collection: Collection, engine: Engine, start: Model | None = None) -> Outcome:
        """Learn from the collection, from a network with fresh weights or from the encoder of ``start``."""

    @classmethod
    def fitted(cls, look: Look, domain: str, device: str, given: Mapping[str, Any]) -> list[Fit]:
        """What suits images that look like that on that kind of device, beside what the person has ``given``."""
        return [] if "data.size" in given else [fit_size(look, domain, device)]

    def check_settings(self) -> None:
        """Stop where the settings cannot be right, whatever the images are."""
        if self.settings.network not in nets.NAMES:
            names = ", ".join(nets.NAMES)
            raise UserError(f"network is {brief(self.settings.network)}; it can be {names}")

    def check_weights(self, loaded: Mapping[str, Any], *, features: bool, cache: Path) -> None:  # noqa: B027
        """Stop where the settings name weights that cannot be had. ``loaded`` are settings whose weights were had a
        moment ago; ``features`` says whether features stand in the place of images."""

    def check(self, shape: tuple[int, int, int]) -> None:
        """Stop, before a run begins, where the network cannot take images of that shape (channels, height, width)."""
        with torch.random.fork_rng(devices=[]):
            nets.build(self.settings.network, *shape[:2])

    def check_mixed(self) -> None:
        """Stop where the settings cannot be right for a mixed pile."""
        if _is_spectral(self.settings):
            raise UserError(
                "cluster.algorithm is spectral, which cannot have known categories as clusters: with --mixed leave it "
                "out, or set it to kmeans"
            )

    def encoder_settings(self) -> dict[str, Any]:
        """Of the settings network, data.size and dimension, those that the encoder of a run's model follows from, by
        name: a later run goes on only from a model that fits them."""
        size = {"data.size": self.settings.data.size} if self.goes_on else {}
        return {"network": self.settings.network} | size

    def later_epochs(self, collection: Collection) -> float:
        """What follows the stretched plan, in its epochs."""
        return 0

    def seconds_to_read(self, collection: Collection, engine: Engine) -> tuple[str, float]:
        """What takes the time where no plan is stretched, and how many seconds it takes."""
        return "reading images", 0.0

    def kept_as(self) -> str:
        """The digest under which the features of the model's backbone are kept in the cache; "" where they are not,
        since the network was trained."""
        return ""

    def cluster(self, features: Tensor, k: int, seed: int, known: Tensor | None = None) -> Tensor:
        """``k`` clusters [n] of features [n, D], found as the method finds them: for the gauge of stability. With the
        labels ``known`` of the first features, known categories are clusters, too, the first ones."""
        return cluster(features, k, getattr(self.settings, "cluster", ClusterSettings()), seed, known).labels

    def regroup(self, features: Tensor, labels: Tensor, k: int, seed: int) -> tuple[Tensor, Tensor] | None:
        """Categories [n - len(labels)] for the unlabelled of features [n, D] that no label has touched, where the
        first have ``labels``, and the features that they were found in: a quick rehearsal of the method. None where it
        has none."""
        return None


@dataclass(frozen=True)
class Fit:
    """Settings that suit some images, and, where the person should know of it, the choice."""

    changes: dict[str, Any]
    choice: Choice | None = None
    mixed: bool = True
    """Whether they suit mixed piles, too."""


def fit_size(look: Look, domain: str, device: str) -> Fit:
    """The images' own size, or the largest that a network learns from in reasonable time on that kind of device."""
    size = max(16, min(look.side, MAX_SIDE[domain][device]))
    why = "the images' own" if size == look.side else f"the images have {look.side}"
    why = why if size >= look.side else f"{why}, which takes too long"
    return Fit({"data.size": size}, Choice("image size", str(size), why))


def fit_multiviews(look: Look, domain: str, device: str, given: Mapping[str, Any]) -> list[Fit]:
    """What suits the images where a method makes whole and extra views of them: their size, that of natural extra
    views (half of it), and the background of symbols."""
    fits = []
    if "data.size" not in given:
        size = fit_size(look, domain, device)
        local = {"views.extra_size": size.changes["data.size"] // 2} if domain == "natural" else {}
        fits.append(replace(size, changes=size.changes | local))
    if domain == "symbolic" and "views.fill" not in given:
        fits.append(fit_background(look, "views.fill"))
    return fits


def fit_whole_views(look: Look, domain: str, device: str, given: Mapping[str, Any]) -> list[Fit]:
    """What suits the images where a method makes two whole views of them: a network for the device, their size, views
    of their domain, and for symbols the background; no stroke of a symbol is cut off."""
    fits = fit_network(look, domain, device, given)
    if "data.size" not in given:
        fits.append(fit_size(look, domain, device))
    fits.append(Fit({"views.domain": domain}))
    if domain == "symbolic":
        fits.append(Fit({"views.padded": 0.0}))
        fits += [] if "views.fill" in given else [fit_background(look, "views.fill")]
    return fits


def fit_network(look: Look, domain: str, device: str, given: Mapping[str, Any]) -> list[Fit]:
    """On a CPU a small network, unless one is ``given``."""
    if device != "cpu" or "network" in given:
        return []
    network = SMALL[domain] if look.side >= 16 else "tiny"  # vgg6 halves its images four times
    return [Fit({"network": network}, Choice("network", network, "small enough to train without a GPU"))]


def fit_symbols(look: Look, given: Mapping[str, Any]) -> list[Fit]:
    """What symbols need to be clustered, unless it is ``given``: their background, and spectral clustering, unless the
    pile is mixed."""
    fits = [] if "views.fill" in given else [fit_background(look, "views.fill")]
    if "cluster.algorithm" not in given:
        why = "symbols vary along curves"
        fits.append(Fit({"cluster.algorithm": "spectral"}, Choice("clustering", "spectral", why), mixed=False))
    return fits


def fit_background(look: Look, *names: str) -> Fit:
    """The commonest level of grey, as what lies outside an image."""
    why = "the commonest level of grey; 0 is black, 255 white"
    return Fit(dict.fromkeys(names, look.background), Choice("background", str(look.background), why))


def require_mixed(method: str) -> None:
    """Stop unless that method takes mixed piles."""
    if not get_method(method).mixed:
        those = ", ".join(methods_that(lambda found: found["mixed"]))
        raise UserError(f"--mixed: {method} finds novel categories alone; methods that find known ones, too: {those}")


def settings_for_mixed(settings: Settings) -> Settings:
    """Those of a run, for a mixed pile: k-means takes the place of spectral clustering (docs/mixed.md)."""
    if not _is_spectral(settings):
        return settings
    chosen: Any = settings
    found: Settings = replace(chosen, cluster=replace(chosen.cluster, algorithm="kmeans"))
    return found


def _is_spectral(settings: Settings) -> bool:
    chosen: ClusterSettings = getattr(settings, "cluster", ClusterSettings())
    return chosen.algorithm == "spectral"


def run_method(settings: Settings, collection: Collection, engine: Engine, start: Model | None = None) -> Outcome:
    """Seed torch, fit the method of the settings, number its novel categories by size, and have its model learn to tell
    strange images."""
    if collection.mixed:
        require_mixed(settings.method)
    torch.manual_seed(engine.seed)
    method = get_method(settings.method)(settings)
    outcome = largest_first(method.fit(collection, engine, start), collection)
    return replace(outcome, taught=method.taught, test_features=learn_strangeness(outcome, collection, engine))


def largest_first(outcome: Outcome, collection: Collection) -> Outcome:
    """The same outcome with the novel categories of each task numbered by the images they have, the largest first. The
    model's head follows."""
    sizes = np.bincount(outcome.assignments, minlength=len(outcome.model.classes))
    order = np.arange(len(sizes))
    for task in collection.tasks:
        novel = collection.novel_of(task)
        order[novel] = novel[np.argsort(-sizes[novel], kind="stable")]
    outcome.model.head.reorder(torch.from_numpy(order).to(next(outcome.model.head.parameters()).device))
    number = np.argsort(order)
    earlier = {name: number[assigned] for name, assigned in outcome.earlier.items()}
    return replace(outcome, assignments=number[outcome.assignments], earlier=earlier)


def learn_strangeness(outcome: Outcome, collection: Collection, engine: Engine) -> Tensor | None:
    """Have the model tell images that fit none of its categories. How strange images of the categories may be is
    measured on the test images, which were not trained on; without any, it remains to be calibrated. Gives the
    features [n_test, D] of the test images.

    Where there are features that no label has touched, strangeness is told from these: others are narrower around the
    labelled images that were trained on than around new ones of the same category, which then look like strangers
    (docs/trust-figures.md has figures).
    """
    model = outcome.model
    backbone = outcome.backbone_features if outcome.backbone_unchanged else None
    model.strangeness_of_backbone = backbone is not None
    features = outcome.features if backbone is None else backbone
    if features is None:
        features = engine.features(model, engine.train_images, title="reading features", of=model.features)
    categories = np.concatenate([collection.labels[: collection.n_labelled], outcome.assignments])
    model.strangeness = learn_exemplars(features, categories, engine.seed)
    if collection.test is None:
        return None
    seen = engine.features(model, collection.test, title="test images", of=model.examine)
    model.strangeness.calibrate(seen[:, -1])
    return seen[:, :-1].contiguous()
