"""discover --snapshots: what a run keeps of its epochs, and what it says of epochs that it cannot have."""

import csv

import numpy as np
import pytest
import torch
import yaml
from methods_tiny import TINY, quick, trained_methods

import newfound
from newfound.config.mapping import to_mapping
from newfound.config.settings import PlanSettings
from newfound.data.digits import read_digits
from newfound.engine.loop import Engine
from newfound.methods import get_method
from newfound.methods.parts.representation import Representation
from newfound.methods.parts.supervised import Supervised
from newfound.runfolder import Run
from newfound.runs.snapshots import read_snapshots, read_truth

SETTINGS = TINY | {"stage1.epochs": 3}
SAME = ("metrics.jsonl", "assignments.csv", "confusion.csv", "model/model.safetensors")


def discover(out, **more):
    return newfound.discover(dataset="digits", method="apl", settings=SETTINGS, threads=1, out=out, **more).folder


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return discover(tmp_path_factory.mktemp("snapshots") / "run", snapshots=[1, "3", "stage2:1"])


def files(folder):
    return {path.name: path.read_bytes() for path in (folder / "snapshots").iterdir()}


def test_a_run_is_the_same_with_snapshots_and_without(run, tmp_path):
    plain = discover(tmp_path / "plain")
    assert [name for name in SAME if (run / name).read_bytes() != (plain / name).read_bytes()] == []
    assert not (plain / "snapshots").exists()


def test_snapshots_are_of_the_epochs_asked_for_in_order(run):
    found = read_snapshots(Run.open(run), 679)
    assert [(stage, epoch) for stage, epoch, *_ in found] == [
        ("stage1", 1), ("stage1", 3), ("stage2-1", 1), ("stage2-2", 1),
    ]  # fmt: skip
    assert yaml.safe_load((run / "settings.yaml").read_text())["snapshots"] == ["stage1:1", "stage1:3", "stage2:1"]
    first, last = found[0][2], found[1][2]
    assert first.shape == last.shape == (679, 128)
    assert not np.array_equal(first, last)
    assert all(np.array_equal(images, np.arange(679)) for *_, images in found)


def test_the_last_snapshot_is_what_the_next_stage_starts_from(tmp_path):
    out = newfound.discover(
        dataset="digits", method="kmeans", settings={"stage1.epochs": 2}, snapshots="2", threads=1, out=tmp_path / "run"
    ).folder
    ((_, _, features, images),) = read_snapshots(Run.open(out), 679)
    model = newfound.load(out)
    with open(out / "assignments.csv") as file:
        names = [row["image"] for row in csv.DictReader(file)]
    from newfound.data.digits import read_digits

    reading = read_digits(0)
    row = {name: reading.collection.n_labelled + i for i, name in enumerate(reading.names.unlabelled)}
    pixels = reading.collection.train.images[[row[names[image]] for image in images]]
    np.testing.assert_allclose(features, model.transform(pixels), rtol=1e-4, atol=1e-4)


def test_the_truth_of_the_images_lies_beside_where_it_is_known(run):
    truth = read_truth(Run.open(run))
    assert len(truth) == 679
    assert set(truth.values()) == {"1", "3", "5", "7", "9"}


def test_a_run_that_is_stopped_before_and_after_a_snapshot_ends_with_the_same_ones(run, tmp_path, monkeypatch):
    from newfound.errors import Interrupted

    real, steps = Representation.step, []

    def stopping(self, batch, t):
        import signal

        if int(t) in (20, 60) and int(t) not in steps:
            steps.append(int(t))
            signal.raise_signal(signal.SIGTERM)
        return real(self, batch, t)

    monkeypatch.setattr(Representation, "step", stopping)
    with pytest.raises(Interrupted):
        discover(tmp_path / "run", snapshots=[1, 3, "stage2:1"])
    with pytest.raises(Interrupted):
        newfound.resume(tmp_path / "run")
    newfound.resume(tmp_path / "run")
    assert steps == [20, 60]
    assert files(tmp_path / "run") == files(run)
    assert (tmp_path / "run" / "metrics.jsonl").read_bytes() == (run / "metrics.jsonl").read_bytes()


@pytest.mark.parametrize(
    ("method", "given", "sentence"),
    [
        ("apl", "0", "an epoch is a whole number from 1"),
        ("apl", "1.5", "an epoch is a whole number from 1"),
        ("apl", "1,,2", "an epoch is a whole number from 1"),
        ("apl", ":3", "an epoch is a whole number from 1"),
        ("apl", [True, None], "an epoch is a whole number from 1"),
        ("apl", [], "give 1 to 100 epochs"),
        ("apl", range(1, 102), "give 1 to 100 epochs"),
        ("apl", 3, "write it as 1,10,100"),
        ("apl", "discovery:1", "apl has no stage discovery; write stage1:1 or stage2:1"),
        ("apl", "1,4", "--snapshots stage1:4: stage1 has 3 epochs here; name none beyond"),
        ("apl", "1,1000000", "--snapshots stage1:1000000: stage1 has 3 epochs here; name none beyond"),
        ("apl-features", "1", "say of which stage of apl-features: stage2:1"),
        ("apl-features", "tuned:1", "apl-features has no stage tuned; write stage2:1"),
    ],
)
def test_epochs_that_there_are_not_are_refused_before_a_run_begins(tmp_path, method, given, sentence):
    settings = SETTINGS if method == "apl" else {}
    with pytest.raises(newfound.UserError) as caught:
        newfound.discover(dataset="digits", method=method, settings=settings, snapshots=given, out=tmp_path / "run")
    assert sentence in caught.value.command_line
    assert not (tmp_path / "run").exists()


LEFT_OUT = [
    ("apl-features", "tune", {}, "tune.blocks is 0"),
    *((name, "stage2", {"selftraining.iterations": 0}, "selftraining.iterations is 0") for name in ("apl", "apl-plus")),
    *(
        (name, "selfsupervised", {"self_supervision": False}, "self_supervision is false")
        for name in ("autonovel", "dtc", "kcl", "mcl")
    ),
]


@pytest.mark.parametrize(("method", "stage", "settings", "why"), LEFT_OUT)
def test_a_stage_that_the_settings_leave_out_is_refused_before_a_run_begins(tmp_path, method, stage, settings, why):
    with pytest.raises(newfound.UserError) as caught:
        newfound.discover(
            dataset="digits", method=method, settings=settings, snapshots=f"{stage}:1", out=tmp_path / "run"
        )
    assert str(caught.value) == (
        f"snapshots {stage}:1: {method} does not train the stage {stage} where {why}; change that setting, or leave "
        "this epoch out"
    )
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("method", trained_methods())
def test_every_stage_that_the_settings_do_not_leave_out_is_trained(method, monkeypatch):
    collection, trained, settings = read_digits(0).collection, set(), quick(method)
    with monkeypatch.context() as patch:
        patch.setattr(Engine, "train", lambda engine, stage: trained.add(stage.settings_key))
        get_method(method)(settings).fit(collection, Engine(collection, torch.device("cpu")))
    plans = {name for name, value in vars(settings).items() if isinstance(value, PlanSettings)}
    assert trained == plans - settings.left_out().keys()


def test_a_stage_without_features_is_told_at_the_end(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(Supervised, "snapshot", lambda *_: None)
    newfound.discover(
        dataset="digits", method="kmeans", snapshots="1", settings={"stage1.epochs": 1}, threads=1, out=tmp_path / "run"
    )
    assert "there is no snapshot stage1:1" in capsys.readouterr().err
    assert not (tmp_path / "run" / "snapshots").exists()


@pytest.mark.parametrize(("method", "plan"), [("apl-features", "stage2"), ("simgcd", "train")])
def test_features_that_were_given_have_snapshots_of_what_becomes_of_them(tmp_path, method, plan):
    rng = np.random.default_rng(0)
    category = rng.integers(0, 4, 60)
    np.save(tmp_path / "x.npy", (rng.normal(size=(60, 8)) + 5 * np.eye(4, 8)[category]).astype(np.float32))
    known = [f"{row},{label}" for row, label in enumerate(category) if label < 2]
    (tmp_path / "labels.csv").write_text("\n".join(["image,label", *known, ""]))
    given = {"features": tmp_path / "x.npy", "labels": tmp_path / "labels.csv", "n_novel": 2, "threads": 1}
    found = newfound.discover(**given, method=method, snapshots=[f"{plan}:1", f"{plan}:3"], out=tmp_path / "run")
    (_, _, first, images), (_, _, third, _) = read_snapshots(Run.open(found.folder), len(found))
    assert first.shape == third.shape == (60 - len(known), 8)
    assert not np.array_equal(first, third)
    own = [found.categories[image] for image in images]
    centres = {name: third[[name == other for other in own]].mean(0) for name in set(own)}
    near = [max(centres, key=lambda name: row @ centres[name]) for row in third]
    assert np.mean([one == other for one, other in zip(near, own, strict=True)]) > 0.9


@pytest.mark.slow
@pytest.mark.parametrize("method", trained_methods())
def test_every_method_has_snapshots(tmp_path, method):
    values = to_mapping(quick(method)).items()
    keys = {"epochs", "batch", "warmup_epochs"}
    plans = {name: value for name, value in values if isinstance(value, dict) and keys <= set(value)}
    settings = {f"{name}.{key}": plan[key] for name, plan in plans.items() for key in keys}
    out = newfound.discover(
        dataset="digits", method=method, settings=settings, snapshots=[1, 2], threads=1, out=tmp_path / "run"
    ).folder
    found = read_snapshots(Run.open(out), 679)
    assert [(stage, epoch) for stage, epoch, *_ in found] == [(get_method(method).stretched, n) for n in (1, 2)]
    assert not np.array_equal(found[0][2], found[1][2])
