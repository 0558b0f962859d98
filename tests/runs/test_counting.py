"""The number of novel categories is estimated where nobody gives it, and a run keeps it."""

import json

import embeddings
import numpy as np
import pytest
import yaml

from newfound import Discoverer, UserError, count_novel
from newfound.engine import loop
from newfound.errors import Interrupted
from newfound.methods import get_method
from newfound.runs.discovery import discover, resume

QUICK = {"stage2.epochs": 3}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return embeddings.write(tmp_path_factory.mktemp("embedding"))


@pytest.fixture(scope="module")
def found(files, tmp_path_factory):
    return discover(**files, n_novel="auto", out=tmp_path_factory.mktemp("run") / "run", settings=QUICK)


def test_a_run_takes_the_estimated_number_and_says_so(files, found):
    counted = count_novel(**files)
    assert counted.estimate == embeddings.NOVEL
    assert len(found.result["novel"]) == counted.estimate
    assert found.result["counted"] == json.loads(json.dumps(counted.to_mapping()))
    assert found.result["auto"][0]["what"] == "novel"
    assert f"probably {counted.interval[0]} to {counted.interval[1]}" in found.result["auto"][0]["why"]


def test_the_number_is_fixed_in_the_run(found):
    settings = yaml.safe_load((found.folder / "settings.yaml").read_text())
    assert settings["call"]["source"]["n_novel"] == found.result["counted"]["estimate"]


def test_the_page_has_the_curve(found):
    page = (found.folder / "report.html").read_text()
    content = page.split('<script type="application/json" id="content">')[1].split("</script>")[0]
    counted = json.loads(content)["counted"]
    assert counted["estimate"] == found.result["counted"]["estimate"]
    assert counted["curve"] == found.result["counted"]["curve"]


def test_a_run_that_was_interrupted_is_resumed_with_its_number(files, found, tmp_path, monkeypatch):
    log = loop.Training._log

    def stop(self, epoch):
        monkeypatch.setattr(loop.Training, "_log", log)
        raise Interrupted("stopped")

    monkeypatch.setattr(loop.Training, "_log", stop)
    with pytest.raises(Interrupted):
        discover(**files, n_novel="auto", out=tmp_path / "run", settings=QUICK)
    monkeypatch.setattr("newfound.runs.discovery.count_source", None)  # it is not asked for again
    again = resume(tmp_path / "run")
    assert again.result["counted"] == found.result["counted"]
    for name in ("assignments.csv", "metrics.jsonl", "model/model.safetensors"):
        assert (again.folder / name).read_bytes() == (found.folder / name).read_bytes(), name


def test_a_finished_run_is_counted_in(found):
    counted = count_novel(run=found.folder)
    assert counted.interval[0] <= embeddings.NOVEL <= counted.interval[1]


def test_in_a_run_a_rehearsal_speaks_only_where_no_label_taught_the_features(found, monkeypatch):
    assert "learned from the labels" in count_novel(run=found.folder).statement
    assert not get_method("simclr").taught
    monkeypatch.setattr(get_method("apl-features"), "taught", False)
    assert "a rehearsal on known categories missed by" in count_novel(run=found.folder).statement


def test_features_are_read_of_those_images_alone_that_are_looked_at(found, monkeypatch):
    from newfound.count import sample
    from newfound.engine import features

    read, sizes = features.read_features, []

    def watch(network, images, *others, **named):
        sizes.append(len(images))
        return read(network, images, *others, **named)

    monkeypatch.setattr(features, "read_features", watch)
    monkeypatch.setattr(sample, "MOST_PILE", 60)
    counted = count_novel(run=found.folder)
    assert sizes == [sum(counted.images)]
    assert counted.images[1] == 60


def test_the_estimator_counts(files):
    features = np.load(files["features"])
    rows = {name: row for row, name in enumerate(files["ids"].read_text().splitlines())}
    labels = np.full(len(features), None, dtype=object)
    for line in files["labels"].read_text().splitlines()[1:]:
        name, _, label = line.partition(",")
        labels[rows[name]] = label
    model = Discoverer(n_novel="auto", settings=QUICK).fit(features, labels)
    assert model.count_.estimate == len(model.novel_classes_) == embeddings.NOVEL


def test_the_estimator_reads_those_images_alone_that_are_looked_at(files, monkeypatch):
    from newfound.count import features as counted
    from newfound.count import sample

    sizes = []

    def watch(images, *others):
        sizes.append(len(images))
        return read(images, *others)

    read = counted.pretrained_features
    monkeypatch.setattr("newfound.estimator.discoverer.pretrained_features", watch)
    monkeypatch.setattr(sample, "MOST_PILE", 60)
    features = np.load(files["features"])
    labels = np.where(np.arange(len(features)) < 100, np.arange(len(features)) % 4, -1)
    model = Discoverer(n_novel="auto", settings=QUICK).fit(features, labels)
    assert sizes == [sum(model.count_.images)] == [160]


def write(folder, features, n_known):
    np.save(folder / "x.npy", features.astype(np.float32))
    lines = [f"{i},{label}\n" for i, label in enumerate(n_known)]
    (folder / "labels.csv").write_text("image,label\n" + "".join(lines))
    return {"features": folder / "x.npy", "labels": folder / "labels.csv"}


def test_a_tiny_pile_is_refused_and_leaves_no_folder(tmp_path):
    given = write(tmp_path, np.random.default_rng(0).normal(size=(45, 8)), ["a"] * 20 + ["b"] * 20)
    with pytest.raises(UserError, match="the pile has 5 images, too few"):
        discover(**given, n_novel="auto", out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_pile_without_anything_new_is_refused_and_leaves_no_folder(tmp_path):
    rng = np.random.default_rng(0)
    centres = 10 * rng.normal(size=(5, 16))
    truth = np.tile(np.arange(5), 120)
    features = centres[truth] + rng.normal(size=(600, 16))
    given = write(tmp_path, features, [f"c{c}" for c in truth[:300]])
    assert count_novel(**given).nothing_new
    with pytest.raises(UserError, match="probably nothing new in it"):
        discover(**given, n_novel="auto", out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_no_known_category_is_refused(tmp_path):
    with pytest.raises(UserError, match="no labelled image was found"):
        count_novel(**write(tmp_path, np.random.default_rng(0).normal(size=(45, 8)), []))
