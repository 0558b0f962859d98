"""Features of a frozen network are computed once for each image."""

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from newfound.data.store import ImageStore
from newfound.engine import frozen
from newfound.engine.frozen import Kept, frozen_features, recalled_features
from newfound.progress import Reporter
from newfound.tensors import CHECKSUM, checksum


class Counting(nn.Module):
    """The mean of each channel, and how many images were ever looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = 0

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        self.seen += len(images)
        return images.float().mean(dim=(2, 3))


def read(network, images, cache, identity="a"):
    reporter = Reporter(quiet=True)
    return frozen_features(network, images, torch.device("cpu"), reporter, of=network, identity=identity, cache=cache)


@pytest.fixture
def images(monkeypatch):
    monkeypatch.setattr(frozen, "BATCH", 4)
    monkeypatch.setattr(frozen, "SHARD", 8)
    return ImageStore(np.random.default_rng(0).integers(0, 256, (30, 3, 5, 5), np.uint8))


def test_features_follow_the_rows_and_are_computed_once(images, tmp_path):
    network = Counting()
    features = read(network, images, tmp_path)
    assert torch.equal(features, images.images.float().mean(dim=(2, 3)))
    seen = network.seen
    assert torch.equal(read(network, images, tmp_path), features)
    assert network.seen == seen


def test_an_image_in_another_collection_is_known_and_only_new_ones_are_computed(images, tmp_path):
    network = Counting()
    read(network, images.take(np.arange(20)), tmp_path)
    seen = network.seen
    some = images.take(np.array([25, 3, 3, 19, 0, 26, 27, 28]))
    assert torch.equal(read(network, some, tmp_path), some.images.float().mean(dim=(2, 3)))
    assert network.seen == seen + 4


def test_another_network_or_no_cache_computes_anew(images, tmp_path):
    network = Counting()
    read(network, images, tmp_path)
    seen = network.seen
    read(network, images, tmp_path, identity="b")
    read(network, images, None)
    assert network.seen == 3 * seen


def test_an_interruption_keeps_what_is_done_and_the_batches_that_follow(images, tmp_path):
    shapes = []

    class Dying(Counting):
        left = 4

        def forward(self, batch):
            if self.left == 0:
                raise KeyboardInterrupt
            self.left -= 1
            shapes.append(batch.clone())
            return super().forward(batch)

    with pytest.raises(KeyboardInterrupt):
        read(Dying(), images, tmp_path)
    again = Dying()
    again.left = 100
    del shapes[4:]
    read(again, images, tmp_path)
    resumed, shapes[:] = list(shapes), []
    whole = Dying()
    whole.left = 100
    read(whole, images, None)
    assert len(resumed) == len(shapes)
    assert all(torch.equal(a, b) for a, b in zip(resumed, shapes, strict=True))


def test_a_damaged_file_in_the_cache_costs_time_alone(images, tmp_path, capsys):
    features = read(Counting(), images, tmp_path)
    for path in tmp_path.rglob("*.safetensors"):
        path.write_bytes(path.read_bytes()[:50])
    assert torch.equal(read(Counting(), images, tmp_path), features)
    assert "computed again" in capsys.readouterr().err


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float8_e4m3fn, torch.uint16])
@pytest.mark.parametrize("name", ["digests", "features"])
def test_a_file_of_other_types_in_the_cache_costs_time_alone(images, tmp_path, kind, name):
    features = read(Counting(), images, tmp_path)
    for path in tmp_path.rglob("*.safetensors"):
        tensors = load_file(path)
        tensors[name] = tensors[name].to(kind)
        save_file(tensors, path, metadata={CHECKSUM: checksum(tensors)})
    kept = Kept(tmp_path, "a", images.shape, torch.device("cpu"), Reporter(quiet=True))
    assert torch.equal(recalled_features(Counting(), images, torch.device("cpu"), kept, of=Counting()), features)
    assert torch.equal(read(Counting(), images, tmp_path), features)


@pytest.mark.parametrize("place", [0.1, 0.5, 0.99])
def test_a_byte_that_has_changed_in_the_cache_changes_no_feature(images, tmp_path, capsys, place):
    features = read(Counting(), images, tmp_path)
    for path in tmp_path.rglob("*.safetensors"):
        content = bytearray(path.read_bytes())
        content[int(place * len(content))] ^= 1
        path.write_bytes(content)
    assert torch.equal(read(Counting(), images, tmp_path), features)
    assert "computed again" in capsys.readouterr().err
    assert torch.equal(read(Counting(), images, tmp_path), features)
    assert capsys.readouterr().err == ""


def test_a_prediction_takes_no_changed_feature_from_the_cache_either(images, tmp_path):
    features = read(Counting(), images, tmp_path)
    for path in tmp_path.rglob("*.safetensors"):
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)
    kept = Kept(tmp_path, "a", images.shape, torch.device("cpu"), Reporter(quiet=True))
    network = Counting()
    found = recalled_features(network, images, torch.device("cpu"), kept, of=network)
    assert torch.equal(found, features)


def test_a_cache_that_cannot_be_written_to_is_a_warning(images, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert len(read(Counting(), images, tmp_path / "file")) == 30
    assert "features cannot be kept" in capsys.readouterr().err
