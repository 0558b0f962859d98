"""Snapshots of an epoch: its features, whatever interrupts, and a training that does not notice them."""

import signal

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from newfound.engine.snapshots import Snapshots, make_snapshots
from newfound.errors import Interrupted, UserError

STEPS = 5
"""Of an epoch of a toy; it has four epochs."""


@pytest.fixture
def train(make_engine, make_toy, collection):
    """Train a toy whose encoder is all but its last layer, in a folder; gives its tensors."""

    def train(folder, wanted=(("stage1", 1), ("stage1", 3)), on_step=None, **plan):
        stage = make_toy(on_step=on_step, **plan)
        stage.encoder = Flat(stage.linear[:4])
        rows = np.array([44, 43, 49])
        engine = make_engine(folder)
        engine.snapshots = Snapshots(folder / "snapshots", frozenset(wanted), rows, rows - 42) if wanted else None
        engine.train(stage)
        return {name: value.clone() for name, value in stage.state_dict().items()}

    class Flat(nn.Module):
        """Layers as a network that is no sub-module of the stage once more: its weights are there already."""

        def __init__(self, layers):
            super().__init__()
            object.__setattr__(self, "layers", layers)

        def forward(self, images):
            return self.layers.eval()(images.float() / 255)

        def train(self, mode=True):
            self.layers.train(mode)
            return self

    return train


def files(folder):
    return {path.name: path.read_bytes() for path in (folder / "snapshots").iterdir()}


def test_a_snapshot_has_the_features_at_the_end_of_its_epoch(train, tmp_path, collection):
    train(tmp_path / "long", schedule="constant")
    found = load_file(tmp_path / "long" / "snapshots" / "stage1-00003.safetensors")
    tensors = train(tmp_path / "short", wanted=(), schedule="constant", epochs=3)
    images = collection.train.images[[44, 43, 49]].flatten(1).float() / 255
    hidden = images @ tensors["linear.1.weight"].T
    mean, var = tensors["linear.2.running_mean"], tensors["linear.2.running_var"]
    expected = (hidden - mean) / (var + 1e-5).sqrt() * tensors["linear.2.weight"] + tensors["linear.2.bias"]
    torch.testing.assert_close(found["features"], expected.relu())
    assert found["images"].tolist() == [2, 1, 7]


def test_training_does_not_notice_snapshots(train, tmp_path):
    plain, watched = train(tmp_path / "plain", wanted=()), train(tmp_path / "watched")
    assert all(torch.equal(value, watched[name]) for name, value in plain.items())
    assert (tmp_path / "plain" / "metrics.jsonl").read_bytes() == (tmp_path / "watched" / "metrics.jsonl").read_bytes()
    assert sorted(files(tmp_path / "watched")) == ["stage1-00001.safetensors", "stage1-00003.safetensors"]


@pytest.mark.parametrize("at", [0, STEPS - 1, STEPS, 3 * STEPS - 2, 3 * STEPS - 1, 3 * STEPS])
def test_a_run_that_is_interrupted_has_each_snapshot_and_the_same(train, tmp_path, at):
    whole = train(tmp_path / "whole")
    with pytest.raises(Interrupted):
        train(tmp_path / "broken", on_step=lambda step: signal.raise_signal(signal.SIGINT) if step == at else None)
    taken = [epoch for epoch in (1, 3) if epoch * STEPS <= at + 1]
    assert len([*(tmp_path / "broken").glob("snapshots/*")]) == len(taken)
    resumed = train(tmp_path / "broken")
    assert all(torch.equal(value, resumed[name]) for name, value in whole.items())
    assert files(tmp_path / "broken") == files(tmp_path / "whole")


def test_a_run_killed_between_snapshot_and_checkpoint_takes_the_same_one_again(train, tmp_path, monkeypatch):
    train(tmp_path / "whole")
    with monkeypatch.context() as patch:
        patch.setattr("newfound.engine.checkpoint.Checkpoints.save", lambda *_, **__: (_ for _ in ()).throw(Killed))
        with pytest.raises(Killed):
            train(tmp_path / "broken")
    assert list(files(tmp_path / "broken")) == ["stage1-00001.safetensors"]
    train(tmp_path / "broken")
    assert files(tmp_path / "broken") == files(tmp_path / "whole")


class Killed(BaseException):
    pass


def test_a_stage_without_features_has_no_snapshots(make_engine, make_toy, tmp_path):
    engine = make_engine(tmp_path / "run")
    engine.snapshots = Snapshots(
        tmp_path / "run" / "snapshots", frozenset({("stage1", 1)}), np.array([44]), np.array([2])
    )
    engine.train(make_toy())
    assert not (tmp_path / "run" / "snapshots").exists()


def test_a_file_in_the_place_of_the_folder_is_one_sentence_before_anything_is_trained(tmp_path, collection):
    folder = tmp_path / "snapshots"
    folder.write_text("notes")
    with pytest.raises(UserError) as caught:
        make_snapshots(folder, [("stage1", 1)], collection, [*"abcdefgh"], 0)
    assert str(caught.value) == (
        f"{folder} is no folder, and this run writes there: move it away, and go on with `newfound resume {tmp_path}`"
    )
    assert folder.read_text() == "notes"


@pytest.mark.parametrize("name", ["snapshots", "checkpoint"])
def test_a_run_in_which_a_file_took_the_place_of_a_folder_goes_on_once_it_is_moved(train, tmp_path, name):
    whole, place = train(tmp_path / "whole"), tmp_path / "run" / name
    with pytest.raises(UserError, match=f"{name} is no folder"):
        train(tmp_path / "run", on_step=lambda step: place.write_text("notes") if step == 2 else None)
    assert place.read_text() == "notes"
    place.unlink()
    assert all(torch.equal(value, whole[name]) for name, value in train(tmp_path / "run").items())
    assert files(tmp_path / "run") == files(tmp_path / "whole")


def test_snapshots_are_of_the_same_images_each_named_by_its_row(collection, tmp_path, monkeypatch):
    monkeypatch.setattr("newfound.engine.snapshots.MOST_IMAGES", 5)
    names = ["h", "c", "a", "g", "b", "f", "d", "e"]
    one, again, other = (make_snapshots(tmp_path, [("stage1", 1)], collection, names, seed) for seed in (0, 0, 1))
    assert one.rows.tolist() == again.rows.tolist()
    assert one.rows.tolist() != other.rows.tolist()
    assert len(set(one.rows.tolist())) == 5
    assert [sorted(names)[place] for place in one.images] == [names[row - 42] for row in one.rows]
    assert one.images.tolist() == sorted(one.images.tolist())
