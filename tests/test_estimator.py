import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.utils import estimator_checks

from newfound import APL, Discoverer, UserError, load
from newfound.data.given import novel_numbers, read_images
from newfound.engine import loop
from newfound.plan import auto, budget

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # of so few images categories are doubtful
QUICK = {"network": "tiny", "stage1.epochs": 4, "stage1.batch": 64, "views.pad": 1, "views.flip": False}


@pytest.fixture(scope="module")
def digits():
    """400 digits as uint8 images, with the odd ones unknown."""
    raw = load_digits()
    images = (raw.images[:400] * 15.9).astype(np.uint8)
    truth = raw.target[:400]
    return images, np.where(truth % 2 == 0, truth, -1), truth


@pytest.fixture(scope="module")
def fitted(digits):
    images, labels, _ = digits
    return Discoverer("kmeans", n_novel=5, settings=QUICK).fit(images, labels)


def test_known_images_keep_their_labels_and_the_others_get_new_ones(fitted, digits):
    _, labels, _ = digits
    known = labels >= 0
    assert (fitted.labels_[known] == labels[known]).all()
    assert set(fitted.labels_[~known]) == set(fitted.novel_classes_) == set(range(100, 105))
    assert fitted.classes_.tolist() == [0, 2, 4, 6, 8, 100, 101, 102, 103, 104]
    assert (fitted.confidence_[known] == 1).all()
    assert ((fitted.confidence_ > 0) & (fitted.confidence_ <= 1)).all()


def test_predictions_follow_the_columns_of_the_probabilities(fitted, digits):
    images, _, truth = digits
    probabilities = fitted.predict_proba(images)
    assert probabilities.shape == (400, 10)
    np.testing.assert_allclose(probabilities.sum(1), 1, rtol=1e-5)
    np.testing.assert_array_equal(fitted.predict(images), fitted.classes_[probabilities.argmax(1)])
    even = truth % 2 == 0
    assert (fitted.predict(images)[even] == truth[even]).mean() > 0.85
    assert fitted.transform(images).shape == (400, 128)
    assert 0.5 < fitted.score(images, truth) <= 1


def test_fit_warns_where_the_categories_may_not_be_trusted_and_keeps_the_gauges(digits):
    images, labels, _ = digits
    alike = images.copy()
    alike[labels < 0] = 100  # nothing to part
    with pytest.warns(UserWarning, match="a clustering of a part of the pile agrees little"):
        model = Discoverer("kmeans", n_novel=5, settings=QUICK).fit(alike, labels)
    assert set(model.trust_) <= {"stability", "parted", "rehearsal", "within"}
    assert model.trust_["stability"] < 0.7


@pytest.mark.parametrize(("ink", "network"), [(200, "vgg6"), (None, "tiny")])
def test_arrays_get_what_suits_them_and_the_device_unless_a_recipe_is_given(ink, network, capsys):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (24, 20, 20, 3), dtype=np.uint8)
    if ink:  # strokes on black
        images[:] = 0
        images[np.arange(24), rng.integers(4, 16, 24)] = ink
    settings = {"stage1.epochs": 1, "stage1.batch": 8}
    model = Discoverer("simclr", n_novel=2, settings=settings, device="cpu", verbose=True)
    model.fit(images, [0, 1] * 6 + [-1] * 12)
    assert model.model_.encoder.network == network
    assert f"auto: network {network}" in capsys.readouterr().err
    given = Discoverer("simclr", n_novel=2, settings=settings | {"network": "tiny"}, device="cpu")
    assert given.fit(images, [0, 1] * 6 + [-1] * 12).model_.encoder.network == "tiny"


def test_tensors_are_taken_in_the_order_of_torch_and_in_that_of_arrays(fitted, digits):
    images, labels, _ = digits
    for tensor in (torch.from_numpy(images), torch.from_numpy(images)[:, None], torch.from_numpy(images)[..., None]):
        np.testing.assert_array_equal(fitted.predict_proba(tensor), fitted.predict_proba(images))
    quick = Discoverer("kmeans", n_novel=5, settings=QUICK | {"stage1.epochs": 1})
    given = quick.fit(torch.from_numpy(images)[:, None], torch.from_numpy(labels)).labels_
    np.testing.assert_array_equal(given, clone(quick).fit(images, labels).labels_)


def test_the_channels_of_a_tensor_in_colour_come_last():
    colour = torch.arange(2 * 3 * 8 * 8, dtype=torch.uint8).reshape(2, 3, 8, 8)
    np.testing.assert_array_equal(read_images(colour), colour.permute(0, 2, 3, 1).numpy())
    np.testing.assert_array_equal(read_images(colour.permute(0, 2, 3, 1)), colour.permute(0, 2, 3, 1).numpy())


def test_the_number_of_features_is_that_of_an_image_as_the_model_takes_it(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    assert fitted.n_features_in_ == load(tmp_path / "model").n_features_in_ == 8 * 8


@pytest.mark.parametrize(
    ("known", "first"),
    [([0, 2, 8], 100), ([9], 100), ([10], 1000), (range(80), 1000), ([-5], 100), ([2**61], 2**61 + 1)],
)
def test_the_numbers_of_novel_categories_are_far_from_those_of_known_ones(known, first):
    assert novel_numbers(np.array(known), 2).tolist() == [first, first + 1]


def test_auto_chooses_a_method_for_arrays_and_for_features(digits, monkeypatch, capsys):
    monkeypatch.setattr(auto, "is_installed", lambda network: False)
    images, labels, _ = digits
    model = Discoverer(n_novel=5, settings=QUICK | {"stage1.epochs": 1}, device="cpu", verbose=True).fit(images, labels)
    assert model.model_.method == "kmeans"
    assert "auto: method kmeans" in capsys.readouterr().err
    features = images.reshape(len(images), -1) / 255
    model = Discoverer(n_novel=5, settings={"stage2.epochs": 1}).fit(features, labels)
    assert model.model_.method == "apl-features"
    assert model.n_features_in_ == 64


def test_a_recipe_names_the_method_where_none_is_given(digits):
    images, labels, _ = digits
    model = Discoverer(n_novel=5, recipe="simclr-digits", settings={"stage1.epochs": 1}).fit(images, labels)
    assert model.model_.method == "simclr"


def test_a_time_becomes_epochs(digits, monkeypatch, capsys):
    monkeypatch.setattr(budget, "measure", lambda *_, **__: {"stage1": budget.Speed(1.0, 5, 100)})
    images, labels, _ = digits
    settings = {name: value for name, value in QUICK.items() if name != "stage1.epochs"}
    model = Discoverer("kmeans", n_novel=5, settings=settings, time="30s", verbose=True)
    with pytest.warns(UserWarning, match="no more than 5 epochs of stage1 fit into 0:30"):
        model.fit(images, labels)
    assert "auto: epochs 5: what 0:30 hold" in capsys.readouterr().err
    with pytest.raises(UserError, match=r"^time '5 hours': write it as"):
        Discoverer(time="5 hours").fit(images, labels)


def test_a_fit_that_takes_long_says_so_in_its_first_steps(digits, monkeypatch):
    images, labels, _ = digits
    monkeypatch.setattr(loop, "SOON", 0.0)
    monkeypatch.setattr(loop, "LONG", 0.0)
    settings = {name: value for name, value in QUICK.items() if name != "stage1.epochs"}
    monkeypatch.setattr("newfound.plan.budget.LEAST_STEPS", 5)
    with pytest.warns(UserWarning, match=r"takes about 0:0\d here: give a time, such as 20m"):
        Discoverer("kmeans", n_novel=5, recipe=None, settings=settings).fit(images[:120], labels[:120])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        Discoverer("kmeans", n_novel=5, settings=QUICK).fit(images[:120], labels[:120])  # epochs that somebody chose
    assert not any("takes about" in str(warning.message) for warning in caught)


def test_apl_has_its_own_method_and_refuses_a_domain_that_there_is_not(digits):
    images, labels, _ = digits
    assert APL().method == "apl"
    with pytest.raises(UserError, match="it can be auto, natural or symbolic"):
        APL(domain="artificial").fit(images, labels)


def test_images_of_unknown_truth_do_not_count_in_the_score(fitted, digits):
    images, _, truth = digits
    partly = np.where(np.arange(len(truth)) % 3 == 0, -1, truth)
    known = partly >= 0
    assert fitted.score(images, partly) == fitted.score(images[known], truth[known])


def test_the_same_seed_gives_the_same_labels_and_another_seed_another_network(fitted, digits):
    images, labels, _ = digits
    again = clone(fitted).fit(images, labels)
    np.testing.assert_array_equal(again.labels_, fitted.labels_)
    np.testing.assert_array_equal(again.transform(images), fitted.transform(images))
    other = clone(fitted).set_params(random_state=1).fit(images, labels)
    assert not np.array_equal(other.transform(images), fitted.transform(images))


def test_strings_with_none_work_and_novel_names_avoid_the_known(digits):
    images, labels, _ = digits
    names = [None if label < 0 else f"novel-{label}" for label in labels]
    model = Discoverer("kmeans", n_novel=3, settings=QUICK | {"stage1.epochs": 1}).fit(images, names)
    assert model.novel_classes_.tolist() == ["found-novel-01", "found-novel-02", "found-novel-03"]
    assert [label for label, name in zip(model.labels_, names, strict=True) if name] == [n for n in names if n]


def test_fit_predict_gives_the_labels_of_fit(fitted, digits):
    images, labels, _ = digits
    np.testing.assert_array_equal(clone(fitted).fit_predict(images, labels), fitted.labels_)


@pytest.mark.parametrize("unknown", [-1.0, np.nan])
def test_floats_with_gaps_are_whole_numbers_with_unknown_ones(unknown, fitted, digits):
    images, labels, _ = digits
    floats = np.where(labels < 0, unknown, labels.astype(float))
    np.testing.assert_array_equal(clone(fitted).fit(images, floats).labels_, fitted.labels_)


def test_new_numbers_do_not_collide_with_the_mark_of_the_unknown():
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (12, 8, 8), dtype=np.uint8)
    model = Discoverer("kmeans", n_novel=2, settings=QUICK | {"stage1.epochs": 1}).fit(images, [-3, -2] * 3 + [-1] * 6)
    assert model.classes_.tolist() == [-3, -2, 100, 101]


def test_no_random_state_means_another_seed_each_time(fitted, digits):
    images, labels, _ = digits
    model = clone(fitted).set_params(random_state=None, settings=QUICK | {"stage1.epochs": 1})
    first = model.fit(images, labels).transform(images)
    assert not np.array_equal(model.fit(images, labels).transform(images), first)
    assert model.random_state is None


def test_fitting_leaves_the_random_numbers_of_torch_alone(fitted, digits):
    images, labels, _ = digits
    before = torch.get_rng_state()
    clone(fitted).set_params(settings=QUICK | {"stage1.epochs": 1}).fit(images, labels)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_saved_model_predicts_as_before(fitted, digits, tmp_path):
    images, _, _ = digits
    fitted.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(images), fitted.predict_proba(images))
    assert loaded.classes_.tolist() == [0, 2, 4, 6, 8, 100, 101, 102, 103, 104]


def test_paths_are_read_and_one_that_cannot_be_is_named(tmp_path):
    rng = np.random.default_rng(0)
    paths = [tmp_path / f"{i}.png" for i in range(12)]
    for path in paths:
        Image.fromarray(rng.integers(0, 256, (20, 20, 3), dtype=np.uint8)).save(path)
    labels = ["a", "b"] * 3 + [None] * 6
    settings = QUICK | {"data.size": 8, "stage1.epochs": 1}
    model = Discoverer("kmeans", n_novel=2, settings=settings).fit(paths, labels)
    assert model.predict(paths[:3]).shape == (3,)
    paths[5].write_text("broken")
    with pytest.raises(UserError, match=r"1 images cannot be read; the first is .*5\.png"):
        model.predict(paths)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"images": np.zeros((10, 8, 8))}, r"expected uint8 images .* floats in 0\.\.1 become such by"),
        ({"images": [torch.zeros(8, 8)] * 10}, r"stack them with torch\.stack"),
        ({"images": np.zeros((10, 8)), "method": "apl"}, "holds features, and apl learns from images"),
        ({"images": np.zeros((10, 64), np.uint8)}, "expected uint8 images"),
        ({"images": np.zeros((10, 8, 9), np.uint8)}, "have to be square"),
        ({"images": np.zeros((10, 8, 8, 4), np.uint8)}, "1 channel .* or 3 .*; not 4"),
        ({"images": [np.zeros((8, 8), np.uint8)] * 10}, "stack them"),
        ({"images": "pictures/"}, "the single path 'pictures/': give a list of paths"),
        ({"images": Path("pictures")}, "the single path 'pictures': give a list of paths"),
        ({"images": []}, "there are no images"),
        ({"images": [1, 2]}, "the list holds 1"),
        ({"images": 5}, "not 5"),
        ({"labels": None}, "one label an image"),
        ({"labels": [0, 1, "a", "b", "c"] + [-1] * 5}, "these are both, such as 0 and 'a'"),
        ({"labels": [0.5] * 5 + [-1.0] * 5}, "a whole number or a string"),
        ({"labels": [2**63] * 5 + [-1] * 5}, "a whole number or a string"),
        ({"random_state": "lucky"}, "random_state is a whole number"),
        ({"random_state": -1}, "random_state is a whole number"),
        ({"labels": [0] * 9}, "10 images but 9 labels"),
        ({"labels": [-1] * 10}, "no image has a label"),
        ({"labels": [0] * 10}, "cannot find 2 novel categories among the 0"),
        ({"n_novel": 6}, "cannot find 6 novel categories among the 5"),
        ({"n_novel": 0}, "cannot find 0 novel"),
        ({"n_novel": 2.0}, "n_novel 2.0: it has to be a whole number"),
        ({"settings": {"stage1.nonsense": 1}}, "no setting stage1.nonsense"),
        ({"method": "nonsense"}, "there is no method nonsense"),
    ],
)
def test_input_that_does_not_fit_is_refused_with_a_sentence(change, complaint):
    arguments = {"images": np.zeros((10, 8, 8), np.uint8), "labels": [0] * 5 + [-1] * 5} | change
    images, labels = arguments.pop("images"), arguments.pop("labels")
    model = Discoverer(**{"method": "kmeans", "n_novel": 2, "settings": QUICK} | arguments)
    with pytest.raises(UserError, match=complaint):
        model.fit(images, labels)


def test_predicting_before_fitting_or_on_other_images_is_refused(fitted):
    with pytest.raises(NotFittedError):
        Discoverer().predict(np.zeros((2, 8, 8), np.uint8))
    with pytest.raises(UserError, match="trained on images of 8 x 8 x 1, these are 9 x 9 x 1"):
        fitted.predict(np.zeros((2, 9, 9), np.uint8))


@pytest.mark.parametrize(
    "check",
    [
        "check_no_attributes_set_in_init",
        "check_parameters_default_constructible",
        "check_get_params_invariance",
        "check_set_params",
        "check_estimator_cloneable",
        "check_estimator_repr",
        "check_mixin_order",
        "check_valid_tag_types",
        "check_estimator_tags_renamed",
    ],
)
def test_scikit_learns_checks_that_need_no_table_of_numbers(check):
    getattr(estimator_checks, check)("Discoverer", Discoverer())
