"""k-means where nothing is trained: over given features, and over a network that others have trained."""

import csv

import embeddings
import numpy as np
import pytest
import torch
from pretrained_package import NAME, coloured_folders, install
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

import newfound
from newfound import Discoverer, UserError
from newfound.data.collection import Collection, novel_tasks
from newfound.data.vectors import VectorStore
from newfound.engine.loop import Engine
from newfound.errors import Interrupted
from newfound.methods.base import run_method
from newfound.model import load_model
from newfound.nets import efficientnet
from newfound.plan.recipe import resolve_settings
from newfound.progress import Reporter
from newfound.runfolder import Run
from newfound.runs.again import report

FEATURES = {"network": "features"}


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def clear():
    """Features [N, 24] of any length around the directions of their categories, which ``embeddings`` has, too."""
    rng = np.random.default_rng(0)
    _, categories = embeddings.vectors()
    directions = np.eye(embeddings.WIDTH)[categories] + 0.05 * rng.normal(size=(len(categories), embeddings.WIDTH))
    return (directions * rng.uniform(1, 5, (len(categories), 1))).astype(np.float32), categories


def among_features(*, mixed, tasks=None, **changes):
    """The outcome among features, these, and the categories of all, the labelled ones first."""
    features, categories = embeddings.vectors() if mixed else clear()
    hidden = (categories >= embeddings.KNOWN) | (mixed & (np.arange(len(features)) % 3 == 0))
    order = np.argsort(hidden, kind="stable")
    known, truth = int((~hidden).sum()), categories[order]
    labels = np.where(hidden[order], -1, truth)
    tasks = tasks or [("", embeddings.NOVEL, np.arange(known, len(order)))]
    names = tuple(f"c{i:02d}" for i in range(embeddings.KNOWN))
    tasks = novel_tasks(embeddings.KNOWN, *tasks, mixed=mixed)
    collection = Collection(VectorStore(features[order]), labels, names, tasks)
    settings = resolve_settings("kmeans", "kmeans-pretrained", FEATURES | changes)
    outcome = run_method(settings, collection, Engine(collection, torch.device("cpu")))
    return outcome, features[order].astype(np.float64), truth, known


@pytest.fixture(autouse=True)
def no_training(monkeypatch):
    monkeypatch.setattr(Engine, "train", lambda *_: pytest.fail("something was trained"))


def test_the_pile_is_what_k_means_makes_of_its_unit_features():
    outcome, features, _, known = among_features(mixed=False)
    reference = KMeans(embeddings.NOVEL, n_init=50, random_state=0).fit(unit(features)[known:])
    assert adjusted_rand_score(reference.labels_, outcome.assignments) == 1
    assert outcome.figures["inertia"] == pytest.approx(reference.inertia_, rel=1e-4)
    assert (outcome.assignments >= embeddings.KNOWN).all()
    assert not outcome.taught


def test_features_of_any_length_are_clustered_where_settings_say_so():
    outcome, features, _, known = among_features(mixed=False, **{"cluster.normalise": False, "cluster.starts": 200})
    reference = KMeans(embeddings.NOVEL, n_init=200, random_state=0).fit(features[known:])
    assert outcome.figures["inertia"] == pytest.approx(reference.inertia_, rel=1e-3)
    assert outcome.figures["inertia"] > 10 * among_features(mixed=False)[0].figures["inertia"]


def test_in_a_mixed_pile_known_categories_are_clusters_of_which_labelled_images_are_members_for_good():
    outcome, features, truth, known = among_features(mixed=True)
    found, vectors = outcome.assignments, unit(features)
    assert {*range(3)} < set(found)
    assert (found >= embeddings.KNOWN).any()
    member = np.concatenate([truth[:known], found])
    centres = np.stack([vectors[member == c].mean(0) for c in range(embeddings.KNOWN + embeddings.NOVEL)])
    for image, category in zip(vectors[known:], found, strict=True):
        assert np.argmin([((image - centre) ** 2).sum() for centre in centres]) == category


@pytest.mark.parametrize("mixed", [False, True])
def test_the_model_gives_every_image_of_the_pile_the_category_it_was_found_in(mixed):
    outcome, features, _, known = among_features(mixed=mixed)
    with torch.no_grad():
        logits = outcome.model(torch.from_numpy(features).float()[:, :, None, None])
    again = logits[known:].argmax(1).numpy()
    if not mixed:  # known categories, of which the labelled images' means are the centres, may be nearer
        logits = logits[:, embeddings.KNOWN :]
        again = embeddings.KNOWN + logits[known:].argmax(1).numpy()
    assert again.tolist() == outcome.assignments.tolist()


def test_each_task_is_clustered_by_itself():
    n = embeddings.KNOWN * embeddings.EACH
    tasks = [("A", 1, np.arange(n, n + 30)), ("B", 2, np.arange(n + 30, n + 120))]
    found = among_features(mixed=False, tasks=tasks)[0].assignments
    assert set(found[:30]) == {embeddings.KNOWN}
    assert set(found[30:]) == {embeddings.KNOWN + 1, embeddings.KNOWN + 2}


def test_features_are_given_as_they_were_for_strangers_and_for_rehearsals():
    outcome, features, _, _ = among_features(mixed=False)
    torch.testing.assert_close(outcome.backbone_features, torch.from_numpy(features).float())
    torch.testing.assert_close(outcome.features, torch.from_numpy(unit(features)).float())
    assert outcome.model.strangeness_of_backbone


@pytest.fixture
def files(tmp_path):
    return embeddings.write(tmp_path / "in") | {"n_novel": 4, "method": "kmeans", "threads": 1}


@pytest.mark.parametrize("mixed", [False, True])
def test_a_run_of_features_resumes_predicts_counts_and_is_exported(files, mixed, tmp_path, monkeypatch):
    files["mixed"] = mixed
    whole = newfound.discover(**files, out=tmp_path / "whole")
    settings = Run.open(whole.folder).settings
    assert (settings.network, settings.cluster.normalise, settings.cluster.algorithm) == ("features", True, "kmeans")
    assert whole.result["confidence"]["calibrated"] == (not mixed)

    def stop(*_, **__):
        raise Interrupted("stopped")

    with monkeypatch.context() as patch:
        patch.setattr("newfound.methods.parts.clusters.cluster", stop)
        with pytest.raises(Interrupted):
            newfound.discover(**files, out=tmp_path / "stopped")
    again = newfound.resume(tmp_path / "stopped")
    for name in ("assignments.csv", "model/model.safetensors"):
        assert (again.folder / name).read_bytes() == (whole.folder / name).read_bytes(), name

    features = np.load(files["features"])
    names = files["ids"].read_text().split()
    category = dict(zip(whole.images, whole.categories, strict=True))
    rows = [row for row, name in enumerate(names) if name in category]
    predicted = newfound.load(whole.folder).predict(features[rows])
    if mixed:
        assert predicted.tolist() == [category[names[row]] for row in rows]
    novel = predicted == np.array([category[names[row]] for row in rows])
    assert novel[np.char.startswith(predicted.astype(str), "novel")].all()
    assert "learned from the labels" not in newfound.count_novel(run=whole.folder).statement
    (whole.folder / "report.html").unlink()
    assert report(whole.folder, device="cpu", reporter=Reporter(quiet=True)).is_file()
    pytest.importorskip("onnxruntime")
    assert whole.export_onnx(tmp_path / "model.onnx").path.is_file()


def test_the_estimator_takes_features_and_refuses_to_train_a_network_on_them():
    features, categories = clear()
    labels = np.where(categories < embeddings.KNOWN, categories, -1)
    model = Discoverer("kmeans", n_novel=4, random_state=0).fit(features, labels)
    assert adjusted_rand_score(categories, model.labels_) == 1
    with pytest.raises(UserError, match="settings must not name its network"):
        Discoverer("kmeans", n_novel=4, settings={"network": "resnet18"}).fit(features, labels)


def test_there_is_no_stage_to_keep_snapshots_of(files, tmp_path):
    with pytest.raises(UserError, match="kmeans does not train the stage stage1 where network is one that others"):
        newfound.discover(**files, snapshots="1", out=tmp_path / "run")


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """Two known colours, three images each; six images of two others; a network for images of 32 pixels."""
    monkeypatch.setitem(efficientnet.SCALES, 0, (1.0, 1.0, 32))
    install(tmp_path / "site", monkeypatch)
    return coloured_folders(tmp_path) | {"threads": 1, "method": "kmeans"}


def test_a_pretrained_network_is_pinned_stays_as_it_is_and_reads_an_image_once(folders, tmp_path, monkeypatch):
    found = newfound.discover(**folders, time="1h", out=tmp_path / "run")
    settings, model = Run.open(found.folder).settings, load_model(found.folder / "model")
    assert (settings.network, settings.data.size, settings.cluster.normalise) == (NAME, 32, True)
    assert len(settings.digest) == 32
    assert (model.encoder.resized, model.encoder.dimension, model.encoder.whitened) == (32, 0, False)
    monkeypatch.setattr("newfound.engine.frozen._compute", lambda *_: pytest.fail("features were computed again"))
    again = newfound.discover(**folders, out=tmp_path / "again")
    assert again.categories == found.categories


def test_a_recipe_and_a_setting_name_a_pretrained_network_too(folders, tmp_path):
    del folders["backbone"]
    by_recipe = newfound.discover(**folders, recipe="kmeans-pretrained", out=tmp_path / "recipe")
    by_setting = newfound.discover(**folders, settings={"network": NAME}, out=tmp_path / "setting")
    for found in (by_recipe, by_setting):
        assert load_model(found.folder / "model").encoder.resized == 32
        assert Run.open(found.folder).settings.data.size == 224
    with open(by_recipe.folder / "assignments.csv") as one, open(by_setting.folder / "assignments.csv") as other:
        assert list(csv.reader(one)) == list(csv.reader(other))
