"""Discoverer: novel category discovery in scikit-learn's manner, on arrays or lists of paths."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import check_is_fitted

from newfound.config.mapping import brief, whole_number
from newfound.data.cache import decode_cached
from newfound.data.collection import Collection, novel_tasks
from newfound.data.embeddings import check_vectors
from newfound.data.look import Look, look, look_at_pixels
from newfound.data.parallel import block_within
from newfound.data.store import ImageStore
from newfound.data.vectors import VectorStore
from newfound.engine.device import pick_device
from newfound.engine.features import read_features
from newfound.engine.loop import Engine
from newfound.errors import UserError
from newfound.evaluate.accuracy import clustering_accuracy
from newfound.methods import get_method
from newfound.methods.base import run_method
from newfound.model import Model, load_model
from newfound.plan.auto import fit_settings
from newfound.plan.recipe import default_recipe, resolve_settings, takers
from newfound.progress import Reporter
from newfound.runfolder import Run
from newfound.trust.gauges import gauge
from newfound.trust.reject import calibrate, require_calibrated
from newfound.trust.warnings import doubts

Images = np.ndarray | Sequence[str | Path]


class Discoverer(ClusterMixin, BaseEstimator):
    """Learns from images of which some have labels, finds categories among the others, and predicts old and new.

    Parameters
    ----------
    method : a name that ``newfound methods`` lists.
    n_novel : how many categories to look for among the unlabelled images.
    recipe : a recipe's name or a YAML file; by default the method's recipe for folders, with the network and views that
        suit the images and the device, as ``newfound discover`` chooses them.
    settings : dotted names and values that go over the recipe, such as {"stage1.epochs": 50}.
    random_state : the seed, a whole number; None draws a fresh one at every fit.
    device : "auto", "cpu" or "cuda".
    verbose : whether progress is shown on standard error.

    Attributes
    ----------
    labels_ : [n] a category for every image given to fit: the known ones keep theirs.
    confidence_ : [n] in 0..1; 1 where the label was given.
    classes_ : known categories, then novel ones, in the order of predict_proba's columns.
    novel_classes_ : the discovered ones alone. Whole-number labels are continued, strings get names (novel-01, …).
    trust_ : gauges, at most 1, of whether the categories can be trusted (docs/trust.md). Where they or the sizes
        of the categories speak against it, ``fit`` warns.
    """

    def __init__(
        self,
        method: str = "kmeans",
        *,
        n_novel: int = 2,
        recipe: str | None = None,
        settings: Mapping[str, Any] | None = None,
        random_state: int | None = 0,
        device: str = "auto",
        verbose: bool = False,
    ) -> None:
        self.method = method
        self.n_novel = n_novel
        self.recipe = recipe
        self.settings = settings
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    def fit(self, images: Images, labels: Sequence[Any]) -> Discoverer:
        """Learn from uint8 images [N, H, W] or [N, H, W, C], or from paths; the method apl-features from float features
        [N, D] too. A label of -1, NaN or (among strings) None means unknown, as in sklearn.semi_supervised."""
        seed, device = _seed(self.random_state), pick_device(self.device)
        settings = self._resolve(images, device)
        store = self._store(images, settings.data.size)
        method = get_method(self.method)
        if isinstance(store, VectorStore):
            if "features" not in method.takes:
                raise UserError(
                    f"a float array [N, D] holds features, and {self.method} learns from images: uint8 [N, H, W] or "
                    f"[N, H, W, C], or paths; for features there is {takers('features')}"
                )
        else:
            method(settings).check(store.shape)
        names, numbers = _number_labels(labels, len(store))
        unknown = np.flatnonzero(numbers < 0)
        rng = np.random.default_rng([seed, 0xDA7A])
        order = np.concatenate([np.flatnonzero(numbers >= 0), rng.permutation(unknown)])
        classes = tuple(str(name) for name in names)
        rows = np.arange(len(order) - len(unknown), len(order))
        tasks = novel_tasks(len(classes), ("", whole_number(self.n_novel, "n_novel"), rows))
        collection = Collection(store.take(order), numbers[order], classes, tasks)
        # The caller's random numbers go on as if nothing had been fitted.
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            engine = Engine(collection, device, seed=seed, reporter=self._reporter())
            outcome = run_method(settings, collection, engine)
        self._adopt(outcome.model, names)
        self.labels_ = self.classes_[np.maximum(numbers, 0)]
        self.confidence_ = np.ones(len(store))
        hidden = order[collection.n_labelled :]
        self.labels_[hidden] = self.classes_[outcome.assignments]
        self.confidence_[hidden] = outcome.confidence
        self.trust_ = gauge(collection, outcome, method(settings), seed)
        for doubt in doubts(collection, outcome, self.trust_).values():
            warnings.warn(doubt, stacklevel=2)
        return self

    def _resolve(self, images: Images, device: torch.device) -> Any:
        """The settings of the recipe given, or what suits the images and the device; with those given over them."""
        given = dict(self.settings or {})
        if self.recipe:
            return resolve_settings(self.method, self.recipe, given)
        paths = _paths(images) if _are_paths(images) else None
        seen = look([Path(path) for path in paths]) if paths else look_at_pixels(np.asarray(images))
        domain = self._domain(seen)
        changes, choices = fit_settings(self.method, seen, domain, device.type, given)
        for choice in choices:
            self._reporter().say(str(choice))
        return resolve_settings(self.method, default_recipe(self.method, "folder", f"folder-{domain}"), changes | given)

    def _domain(self, seen: Look | None) -> str:
        return seen.domain if seen else "natural"

    def fit_predict(self, images: Images, labels: Sequence[Any]) -> np.ndarray:
        """A category for every image given [N], known ones as labelled: ``labels_`` after ``fit``."""
        return self.fit(images, labels).labels_

    def _adopt(self, model: Model, known: np.ndarray) -> None:
        self.model_ = model
        model.numbered = known.dtype.kind in "iu"
        if model.numbered:
            self.novel_classes_ = max(known.max(), -1) + 1 + np.arange(len(model.novel))
        else:
            self.novel_classes_ = np.array(model.novel, dtype=object)
        self.classes_ = np.concatenate([known, self.novel_classes_])

    def _reporter(self) -> Reporter:
        return Reporter(quiet=not self.verbose)

    def _store(self, images: Images, size: int, channels: int = 3) -> ImageStore:
        if not isinstance(images, np.ndarray) or _are_paths(images):
            paths, reporter = _paths(images), self._reporter()
            store, _, skipped = decode_cached(paths, size, channels=channels, cache=None, reporter=reporter)
            if skipped:
                first = f"{skipped[0].file}: {skipped[0].reason}"
                raise UserError(f"{len(skipped)} images cannot be read; the first is {first}")
            return store
        if images.dtype.kind == "f" and images.ndim == 2:
            return VectorStore(check_vectors(images, "images"))
        if images.dtype != np.uint8 or images.ndim not in (3, 4) or images.size == 0:
            raise UserError(f"expected uint8 images [N, H, W] or [N, H, W, C], got {images.dtype} {images.shape}")
        if images.shape[1] != images.shape[2]:
            raise UserError(f"images have to be square, not {images.shape[1]} x {images.shape[2]}")
        if images.ndim == 4 and images.shape[3] not in (1, 3):
            raise UserError(
                f"images have 1 channel (grey) or 3 (red, green, blue), the last axis; not {images.shape[3]}"
            )
        return ImageStore.from_pixels(images)

    def _apply(self, images: Images, of: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        """What a function of the model gives for images, [N, …]; of files only some are in memory at a time."""
        if not _are_paths(images):
            return self._apply_at_once(images, of)
        paths, block = _paths(images), block_within(self.model_.encoder.size, self.model_.encoder.channels)
        return torch.cat([self._apply_at_once(paths[i : i + block], of) for i in range(0, len(paths), block)])

    def _apply_at_once(self, images: Images, of: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        model, encoder = self.model_, self.model_.encoder
        if encoder.network == "features" and not (isinstance(images, np.ndarray) and images.dtype.kind == "f"):
            raise UserError("this model was made of features: give an array [N, D] of them, not images")
        store = self._store(images, encoder.size, encoder.channels)
        if store.shape != (encoder.channels, encoder.size, encoder.size):
            channels, height, width = store.shape
            expected = f"{encoder.size} x {encoder.size} x {encoder.channels}"
            raise UserError(f"the model was trained on images of {expected}, these are {height} x {width} x {channels}")
        device = pick_device(self.device)
        return read_features(model, store, device, self._reporter(), title="predicting", of=of).cpu()

    def predict_proba(self, images: Images) -> np.ndarray:
        """Probabilities [N, old + new]; columns follow ``classes_``."""
        check_is_fitted(self, "model_")
        return self._apply(images, self.model_.forward).softmax(1).numpy()

    def predict(self, images: Images, reject: float | None = None) -> np.ndarray:
        """A category, old or new, for every image [N]; with ``reject``, the share of images of the categories that may
        be mistaken, -1 (among strings: None) for images that fit none of them."""
        check_is_fitted(self, "model_")
        if reject is None:
            return self.classes_[self._apply(images, self.model_.forward).argmax(1).numpy()]
        require_calibrated(self.model_, reject)
        judged = self._apply(images, self.model_.judge)
        categories = self.classes_[judged[:, :-1].argmax(1).numpy()]
        categories[self._p_values(judged) <= reject] = -1 if self.model_.numbered else None
        return categories

    def calibrate(self, images: Images) -> Discoverer:
        """Learn from images of the categories that were not trained on how strange such may be; for ``reject``."""
        check_is_fitted(self, "model_")
        calibrate(self.model_, self._apply(images, self.model_.judge))
        return self

    def score_samples(self, images: Images) -> np.ndarray:
        """How well images fit the categories, [N]: the share of held-out images that are at least as strange."""
        check_is_fitted(self, "model_")
        require_calibrated(self.model_)
        return self._p_values(self._apply(images, self.model_.judge))

    def _p_values(self, judged: torch.Tensor) -> np.ndarray:
        assert self.model_.strangeness is not None
        return self.model_.strangeness.p_value(judged[:, -1]).numpy()

    def transform(self, images: Images) -> np.ndarray:
        """Features [N, D] of images: what categories were found in."""
        check_is_fitted(self, "model_")
        return self._apply(images, self.model_.features).numpy()

    def score(self, images: Images, truth: Sequence[Any]) -> float:
        """Clustering accuracy of ``predict``: the share of images that agree with the truth under the best matching of
        categories, old and new alike. Images whose truth is unknown (-1, NaN or None) do not count."""
        check_is_fitted(self, "model_")
        found = self._apply(images, self.model_.forward).argmax(1).numpy()
        _, true = _number_labels(truth, len(found))
        return clustering_accuracy(found[true >= 0], true[true >= 0])

    def save(self, folder: str | Path) -> None:
        """Write the model (weights and description) to a folder; ``newfound.load`` gives it back."""
        check_is_fitted(self, "model_")
        self.model_.save(Path(folder))


class APL(Discoverer):
    """The paper's method, adaptive prototype learning: a Discoverer whose recipe follows the ``domain`` of the images,
    "natural" (photographs and the like) or "symbolic" (characters, dark on white)."""

    method = "apl"

    def __init__(
        self,
        n_novel: int = 2,
        *,
        domain: str = "natural",
        recipe: str | None = None,
        settings: Mapping[str, Any] | None = None,
        random_state: int | None = 0,
        device: str = "auto",
        verbose: bool = False,
    ) -> None:
        self.n_novel = n_novel
        self.domain = domain
        self.recipe = recipe
        self.settings = settings
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    def _domain(self, seen: Look | None) -> str:
        if self.domain not in ("natural", "symbolic"):
            raise UserError(f"domain is {self.domain!r}; it can be natural or symbolic")
        return self.domain


def load(folder: str | Path) -> Discoverer:
    """The Discoverer of a saved model or of a finished run, ready to predict."""
    path = Path(folder)
    model = load_model(Run.open(path).model_folder() if (path / "settings.yaml").is_file() else path)
    estimator = Discoverer(model.method, n_novel=len(model.novel))
    known = np.array([int(name) for name in model.known]) if model.numbered else np.array(model.known, dtype=object)
    estimator._adopt(model, known)
    return estimator


def _seed(random_state: Any) -> int:
    """The seed that ``random_state`` stands for."""
    if random_state is None:
        return int(np.random.default_rng().integers(2**31))
    if not isinstance(random_state, int | np.integer) or not 0 <= random_state < 2**31:
        raise UserError(f"random_state is a whole number from 0 to {2**31 - 1:,} or None, not {brief(random_state)}")
    return int(random_state)


def _are_paths(images: Any) -> bool:
    """Whether images are given as a list (or whatever is no array of pixels or features)."""
    return not isinstance(images, np.ndarray) or (images.ndim == 1 and images.dtype.kind in "UO")


def _paths(images: Any) -> list[str | Path]:
    """The paths in a list of them."""
    if isinstance(images, str | bytes | os.PathLike):
        raise UserError(f"images is the single path {brief(os.fspath(images))}: give a list of paths")
    try:
        paths = list(images)
    except TypeError:
        raise UserError(f"images are a uint8 array or a list of paths, not {brief(images)}") from None
    if not paths:
        raise UserError("there are no images: the list of paths is empty")
    for path in paths:
        if isinstance(path, str | os.PathLike):
            continue
        if hasattr(path, "shape"):
            raise UserError("images are one array or a list of paths, not a list of arrays: stack them with np.stack")
        raise UserError(f"images are a uint8 array or a list of paths; the list holds {brief(path)}")
    return [str(path) if isinstance(path, str) else Path(path) for path in paths]


def _number_labels(labels: Sequence[Any], n: int) -> tuple[np.ndarray, np.ndarray]:
    """The known categories, sorted, and for every image its number among them or -1."""
    try:
        values = [_label(value) for value in labels]
    except TypeError:
        raise UserError(f"labels are a list or an array with one label an image, not {brief(labels)}") from None
    if len(values) != n:
        raise UserError(f"{n} images but {len(values)} labels")
    known = {value for value in values if value is not None}
    if not known:
        raise UserError("no image has a label: give the labels of the categories you know")
    numbered = {value for value in known if isinstance(value, int)}
    if numbered and numbered != known:
        one, other = min(numbered), min(known - numbered)
        raise UserError(f"labels are either whole numbers or strings; these are both, such as {one} and {brief(other)}")
    names = np.array(sorted(known), dtype=np.int64 if numbered else object)
    number = {name: i for i, name in enumerate(names.tolist())}
    return names, np.array([-1 if value is None else number[value] for value in values], dtype=np.int64)


def _label(value: Any) -> int | str | None:
    """A label as a whole number or a string; None if it says that the category is unknown."""
    if value is None or isinstance(value, str):
        return None if value is None else str(value)
    if isinstance(value, float | np.floating):
        if np.isnan(value):
            return None
        value = int(value) if float(value).is_integer() else value  # a column with gaps holds floats
    if not isinstance(value, int | np.integer | np.bool_) or abs(int(value)) >= 2**62:
        raise UserError(f"a label is a whole number or a string, or -1, None or NaN if unknown; not {brief(value)}")
    return None if value == -1 else int(value)
