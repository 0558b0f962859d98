"""Discoverer: novel category discovery in scikit-learn's manner, on arrays, tensors or lists of paths."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from time import monotonic
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import check_is_fitted

from newfound.config.mapping import brief
from newfound.config.settings import Settings
from newfound.count.auto import choice_of, number_given, to_look_for
from newfound.count.features import count_images, pretrained_features
from newfound.count.result import Count
from newfound.data.cache import decode_cached, default_cache
from newfound.data.collection import Collection, novel_tasks
from newfound.data.given import Images, Labels, make_store, novel_numbers, number_labels, read_images
from newfound.data.look import look, look_at_pixels
from newfound.data.parallel import block_within
from newfound.data.store import ImageStore
from newfound.data.vectors import VectorStore
from newfound.engine.device import pick_device
from newfound.engine.features import read_features
from newfound.engine.loop import Engine
from newfound.engine.own import own_torch
from newfound.errors import UserError, in_python
from newfound.evaluate.accuracy import clustering_accuracy
from newfound.methods import WITH_BACKBONE, get_method
from newfound.methods.base import require_mixed, run_method
from newfound.model import Encoder, Model
from newfound.model.onnx import CHECKED, Written, write_onnx
from newfound.nets.pretrained import find_backbone
from newfound.plan.auto import OVER_BACKBONE, PRETRAINED, Chosen, choose_for_images, method_of
from newfound.plan.budget import Clock, parse_time, plan_epochs
from newfound.plan.call import Place
from newfound.plan.recipe import check_changes, default_recipe, resolve_settings, takers
from newfound.progress import Reporter
from newfound.trust.confidence import calibrated
from newfound.trust.gauges import gauge
from newfound.trust.rehearsal import rehearse
from newfound.trust.reject import calibrate, require_calibrated
from newfound.trust.warnings import doubts
from newfound.trust.within import share_within


class _PythonReporter(Reporter):
    """Shows progress, and warns as Python does."""

    def warn(self, text: str) -> None:
        warnings.warn(in_python(text), stacklevel=2)


class Discoverer(ClusterMixin, BaseEstimator):
    """Novel category discovery: learns from images of which some have labels, and finds categories among the others.

    Parameters
    ----------
    method : str, default="auto"
        A name that ``newfound methods`` lists. "auto" takes what suits the images and the device, as ``discover`` does.
    n_novel : int or "auto", default=2
        How many categories to look for among the unlabelled images. "auto" estimates it from features of a pretrained
        network (docs/count.md), or from the features given.
    mixed : bool, default=False
        Whether known categories may hide among the unlabelled images. Each of these then gets a known or a novel one.
    recipe : str, optional
        A recipe's name or a YAML file. By default the method's recipe for folders, with the network, the views and the
        epochs that suit the images and the device, as ``discover`` chooses them.
    settings : mapping, optional
        Dotted names and values that go over the recipe, such as {"stage1.epochs": 50}.
    time : str or float, optional
        How long ``fit`` may take, such as "20m" or a number of seconds: it becomes epochs.
    random_state : int or None, default=0
        The seed; None draws a fresh one at every fit.
    device : str, default="auto"
        "auto", "cpu", "cuda" or "cuda:N".
    verbose : bool or None, default=None
        Whether progress is shown on standard error; None shows it on a terminal and in a notebook.

    Attributes
    ----------
    labels_ : array [N]
        A category for every image given to ``fit``: the known ones keep theirs.
    confidence_ : array [N]
        In 0..1; 1 where the label was given. Where ``calibrated_``, the probability that the category is right, by what
        became of known images in a rehearsal (docs/trust.md); otherwise the model's own probability.
    calibrated_ : bool
        Whether confidence is calibrated.
    classes_ : array [known + novel]
        The known categories, then the novel ones, in the order of the columns of ``predict_proba``.
    novel_classes_ : array [n_novel]
        The discovered categories, the largest first. Among strings they are called novel-01, novel-02, …; among whole
        numbers they are counted from a power of ten well above the known labels (0 to 8 known: 100, 101, …).
    n_features_in_ : int
        The numbers in an image as the model takes it (C * H * W), or in a row of features (D).
    count_ : Count
        How the number of categories was estimated; only with n_novel="auto".
    trust_ : dict of str to float
        Gauges, at most 1, of whether the categories can be trusted (docs/trust.md). Where they or the sizes of the
        categories speak against it, ``fit`` warns.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_digits
    >>> from newfound import Discoverer
    >>> digits = load_digits()
    >>> X = (digits.images * 15.9).astype(np.uint8)
    >>> y = np.where(digits.target % 2 == 0, digits.target, -1)  # odd digits are unknown
    >>> model = Discoverer("kmeans", n_novel=5).fit(X, y)  # doctest: +SKIP
    >>> model.novel_classes_  # doctest: +SKIP
    array([100, 101, 102, 103, 104])
    """

    labels_: np.ndarray
    confidence_: np.ndarray
    classes_: np.ndarray
    novel_classes_: np.ndarray
    n_features_in_: int
    calibrated_: bool
    count_: Count
    trust_: dict[str, float]
    model_: Model

    def __init__(
        self,
        method: str = "auto",
        *,
        n_novel: int | str = 2,
        mixed: bool = False,
        recipe: str | None = None,
        settings: Mapping[str, Any] | None = None,
        time: str | float | None = None,
        random_state: int | None = 0,
        device: str = "auto",
        verbose: bool | None = None,
    ) -> None:
        self.method = method
        self.n_novel = n_novel
        self.mixed = mixed
        self.recipe = recipe
        self.settings = settings
        self.time = time
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    def fit(self, X: Images, y: Labels) -> Self:
        """Learn from images and the labels of some of them.

        Parameters
        ----------
        X : uint8 array [N, H, W] or [N, H, W, C], uint8 tensor [N, H, W], [N, C, H, W] or [N, H, W, C], or paths
            Square images, grey (C is 1) or in colour (C is 3). A tensor whose second axis has 1 or 3 entries is
            [N, C, H, W]. The methods apl-features, kmeans and simgcd (and "auto") take float features [N, D] too.
        y : [N] whole numbers or strings
            -1, NaN or (among strings) None means unknown, as in sklearn.semi_supervised.
        """
        with own_torch(random=False):
            return self._fit(X, y)

    def _fit(self, X: Images, y: Labels) -> Self:
        began, seed, device = monotonic(), _seed(self.random_state), pick_device(self.device)
        budget = None if self.time is None else parse_time(self.time)
        images, given, reporter = read_images(X), check_changes(self.settings), self._reporter()
        chosen = self._choose(images, device, given)
        if self.mixed:
            require_mixed(chosen.method)
        settings = resolve_settings(chosen.method, chosen.recipe, chosen.changes | given)
        if self.mixed:
            get_method(chosen.method)(settings).check_mixed()
        store = self._store(images, settings.data.size)
        _check_fits(settings, store, given)
        names, numbers = number_labels(y, len(store))
        unknown = np.flatnonzero(numbers < 0)
        rng = np.random.default_rng([seed, 0xDA7A])
        order = np.concatenate([np.flatnonzero(numbers >= 0), rng.permutation(unknown)])
        classes = tuple(str(name) for name in names)
        rows = np.arange(len(order) - len(unknown), len(order))
        self.__dict__.pop("count_", None)  # of an earlier fit
        n_novel = number_given(self.n_novel)
        if n_novel is None:
            n_novel = self._count(store.take(order), numbers[order], device, seed, reporter)
        tasks = novel_tasks(len(classes), ("", n_novel, rows), mixed=self.mixed)
        collection = Collection(store.take(order), numbers[order], classes, tasks)
        # The caller's random numbers go on as if nothing had been fitted.
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            clock = Clock(budget, monotonic() - began)
            planned = plan_epochs(settings, collection, Place(seed, str(device)), clock, given, chosen.free)
            for choice in (*chosen.choices, *planned.choices):
                reporter.say(str(choice))
            for warning in (*chosen.warnings, *planned.warnings):
                reporter.warn(warning)
            engine = Engine(collection, device, seed=seed, reporter=reporter, advice=planned.advice)
            outcome = run_method(planned.settings, collection, engine)
        method = get_method(planned.settings.method)(planned.settings)
        rehearsal = rehearse(collection, outcome, method, seed)
        self.trust_ = gauge(collection, outcome, method, seed)
        if (within := share_within(collection, outcome, seed)) is not None:
            self.trust_["within"] = within
        outcome = calibrated(collection, outcome, rehearsal)
        self.calibrated_ = outcome.calibrated
        self._adopt(outcome.model, names)
        self.labels_ = self.classes_[np.maximum(numbers, 0)]
        self.confidence_ = np.ones(len(store))
        hidden = order[collection.n_labelled :]
        self.labels_[hidden] = self.classes_[outcome.assignments]
        self.confidence_[hidden] = outcome.confidence
        for doubt in doubts(collection, outcome, self.trust_, rehearsal).values():
            warnings.warn(in_python(doubt), stacklevel=3)
        return self

    def _count(self, store: ImageStore, labels: np.ndarray, device: torch.device, seed: int, reporter: Reporter) -> int:
        """The number of novel categories, estimated from images of which the first have labels."""
        network = None if isinstance(store, VectorStore) else find_backbone(PRETRAINED, default_cache())

        def features_of(some: ImageStore) -> torch.Tensor:
            return pretrained_features(some, network, device, reporter, default_cache())

        self.count_ = count_images(
            store, labels[labels >= 0], features_of, mixed=self.mixed, seed=seed, reporter=reporter
        )
        reporter.say(str(choice_of(self.count_)))
        return to_look_for(self.count_)

    def _choose(self, images: np.ndarray | list[str | Path], device: torch.device, given: Mapping[str, Any]) -> Chosen:
        """The method and the recipe given, or what suits the images and the device."""
        method = self.method if self.method != "auto" else None
        if isinstance(images, np.ndarray) and images.dtype.kind == "f" and images.ndim == 2:
            return self._choose_for_features(method)
        if self.recipe:
            return Chosen(method or method_of(self.recipe), self.recipe)
        seen = look_at_pixels(images) if isinstance(images, np.ndarray) else look([Path(path) for path in images])
        return choose_for_images(
            seen, len(images), device.type, method=method, domain=self._domain(), settings=given, mixed=self.mixed
        )

    def _choose_for_features(self, method: str | None) -> Chosen:
        """The same for features in the place of images; stops where the method cannot learn from them."""
        method = method or (method_of(self.recipe) if self.recipe else WITH_BACKBONE)
        if "features" not in get_method(method).takes:
            raise UserError(
                f"a float array [N, D] holds features, and {method} learns from images: uint8 [N, H, W] or "
                f"[N, H, W, C], or paths; for features there is {takers('features')}"
            )
        recipe = self.recipe or default_recipe(method, OVER_BACKBONE, "folder", "folder-natural")
        return Chosen(method, recipe, changes={"network": "features"}, free=not self.recipe)

    def _domain(self) -> str | None:
        """What the images are, None for as they look."""
        return None

    def fit_predict(self, X: Images, y: Labels) -> np.ndarray:
        """A category for every image given [N], known ones as labelled: ``labels_`` after ``fit``."""
        return self.fit(X, y).labels_

    def _adopt(self, model: Model, known: np.ndarray) -> None:
        self.model_, encoder = model, model.encoder
        self.n_features_in_ = encoder.channels * encoder.size**2
        model.numbered = known.dtype.kind in "iu"
        n = len(model.novel)
        self.novel_classes_ = novel_numbers(known, n) if model.numbered else np.array(model.novel, dtype=object)
        self.classes_ = np.concatenate([known, self.novel_classes_])

    def _reporter(self) -> Reporter:
        return _PythonReporter.of(self.verbose)

    def _store(self, images: np.ndarray | list[str | Path], size: int, channels: int = 3) -> ImageStore:
        if isinstance(images, np.ndarray):
            return make_store(images)
        store, _, skipped = decode_cached(images, size, channels=channels, cache=None, reporter=self._reporter())
        if skipped:
            first = f"{skipped[0].file}: {skipped[0].reason}"
            raise UserError(f"{len(skipped)} images cannot be read; the first is {first}")
        return store

    def _apply(self, X: Images, of: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        """What a function of the model gives for images, [N, …]; of files only some are in memory at a time."""
        images = read_images(X)
        with own_torch(random=False):
            if isinstance(images, np.ndarray):
                return self._apply_at_once(images, of)
            block = block_within(self.model_.encoder.size, self.model_.encoder.channels)
            return torch.cat([self._apply_at_once(images[i : i + block], of) for i in range(0, len(images), block)])

    def _apply_at_once(
        self, images: np.ndarray | list[str | Path], of: Callable[[torch.Tensor], torch.Tensor]
    ) -> torch.Tensor:
        store = self._checked_store(images, self.model_.encoder)
        device = pick_device(self.device)
        return read_features(self.model_, store, device, self._reporter(), title="predicting", of=of).cpu()

    def _checked_store(self, images: np.ndarray | list[str | Path], encoder: Encoder) -> ImageStore:
        """The images, which are what the model was trained on."""
        if encoder.network == "features" and not (isinstance(images, np.ndarray) and images.dtype.kind == "f"):
            raise UserError("this model was made of features: give an array [N, D] of them, not images")
        store = self._store(images, encoder.size, encoder.channels)
        if store.shape != (encoder.channels, encoder.size, encoder.size):
            channels, height, width = store.shape
            expected = f"{encoder.size} x {encoder.size} x {encoder.channels}"
            raise UserError(f"the model was trained on images of {expected}, these are {height} x {width} x {channels}")
        return store

    def predict_proba(self, X: Images) -> np.ndarray:
        """Probabilities [N, old + new]; columns follow ``classes_``."""
        check_is_fitted(self, "model_")
        return self._apply(X, self.model_.forward).softmax(1).numpy()

    def predict(self, X: Images, reject: float | None = None) -> np.ndarray:
        """A category, old or new, for every image [N]; with ``reject``, the share of images of the categories that may
        be mistaken, -1 (among strings: None) for images that fit none of them."""
        check_is_fitted(self, "model_")
        if reject is None:
            return self.classes_[self._apply(X, self.model_.forward).argmax(1).numpy()]
        require_calibrated(self.model_, reject)
        judged = self._apply(X, self.model_.judge)
        categories = self.classes_[judged[:, :-1].argmax(1).numpy()]
        categories[self._p_values(judged) <= reject] = -1 if self.model_.numbered else None
        return categories

    def calibrate(self, X: Images) -> Self:
        """Learn from images of the categories that were not trained on how strange such may be; for ``reject``."""
        check_is_fitted(self, "model_")
        calibrate(self.model_, self._apply(X, self.model_.judge))
        return self

    def score_samples(self, X: Images) -> np.ndarray:
        """How well images fit the categories, [N]: the share of held-out images that are at least as strange."""
        check_is_fitted(self, "model_")
        require_calibrated(self.model_)
        return self._p_values(self._apply(X, self.model_.judge))

    def _p_values(self, judged: torch.Tensor) -> np.ndarray:
        assert self.model_.strangeness is not None
        return self.model_.strangeness.p_value(judged[:, -1]).numpy()

    def transform(self, X: Images) -> np.ndarray:
        """Features [N, D] of images: what categories were found in."""
        check_is_fitted(self, "model_")
        return self._apply(X, self.model_.features).numpy()

    def score(self, X: Images, y: Labels) -> float:
        """Clustering accuracy of ``predict``: the share of images that agree with the truth ``y`` under the best
        matching of categories, old and new alike. Images whose truth is unknown (-1, NaN or None) do not count."""
        check_is_fitted(self, "model_")
        found = self._apply(X, self.model_.forward).argmax(1).numpy()
        _, true = number_labels(y, len(found))
        return clustering_accuracy(found[true >= 0], true[true >= 0])

    def save(self, folder: str | Path) -> None:
        """Write the model (weights and description) to a folder; ``newfound.load`` gives it back."""
        check_is_fitted(self, "model_")
        try:
            self.model_.save(Path(folder))
        except TypeError:
            raise UserError(f"the folder to save to is a path, not {brief(folder)}") from None
        except OSError as error:
            raise UserError(f"cannot save to {folder}: {error.strerror}; choose another place") from None

    def export_onnx(self, to: str | Path, X: Images | None = None) -> Written:
        """Write the model to the ONNX file ``to``, for programs without newfound; needs ``newfound[onnx]``.

        Before, its graph is compared with the model on images ``X`` as ``predict`` takes them, by default on random
        ones; what is given back says how far its probabilities were at the most. docs/export.md says what goes in and
        comes out.
        """
        check_is_fitted(self, "model_")
        given = None
        if X is not None:
            images, encoder = read_images(X), self.model_.encoder
            store = self._checked_store(images[:CHECKED], encoder)
            given = store.batch(torch.arange(len(store))).cpu()
            given = given.flatten(1) if isinstance(store, VectorStore) else given
        names = [str(name) for name in self.classes_]
        return write_onnx(self.model_, Path(to), images=given, names=names, about={})


def _check_fits(settings: Settings, store: ImageStore, given: Mapping[str, Any]) -> None:
    """Stop where the method cannot learn from these images with the settings that the person has ``given``."""
    method = get_method(settings.method)
    if not isinstance(store, VectorStore):
        method(settings).check(store.shape)
    else:
        chosen = {name: value for name, value in vars(settings).items() if name not in given}
        method(settings).check_weights(chosen, features=True, cache=default_cache())


def _seed(random_state: Any) -> int:
    """The seed that ``random_state`` stands for."""
    if random_state is None:
        return int(np.random.default_rng().integers(2**31))
    if not isinstance(random_state, int | np.integer) or not 0 <= random_state < 2**31:
        raise UserError(f"random_state is a whole number from 0 to {2**31 - 1:,} or None, not {brief(random_state)}")
    return int(random_state)
