"""The rehearsal on Fashion-MNIST reads the publishers' files."""

import gzip
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from newfound.errors import UserError

REHEARSAL = Path(__file__).parents[2] / "benchmarks" / "rehearsal"


@pytest.fixture
def fashion(monkeypatch):
    monkeypatch.syspath_prepend(str(REHEARSAL))
    monkeypatch.delitem(sys.modules, "fashion", raising=False)
    import fashion

    return fashion


def test_half_of_the_classes_are_known_and_the_other_half_is_the_pile(fashion, monkeypatch, tmp_path):
    monkeypatch.setattr(fashion, "EACH", 3)
    labels = np.tile(np.arange(10, dtype=np.uint8), 5)
    images = np.repeat(labels, 28 * 28)
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(bytes(8) + labels.tobytes()))
    (tmp_path / "train-images-idx3-ubyte").write_bytes(bytes(16) + images.tobytes())
    reading = fashion.read_fashion(tmp_path, seed=0)
    found = reading.collection
    assert found.classes == ("1", "2", "4", "5", "8")
    assert Counter(reading.answers.unlabelled) == {kind: 3 for kind in "03679"}
    shown = found.train.images[:, 0, 0, 0].tolist()
    assert shown[:15] == [int(found.classes[label]) for label in found.labels[:15]]
    assert shown[15:] == [int(kind) for kind in reading.answers.unlabelled]


def test_a_folder_without_it_is_told(fashion, tmp_path):
    with pytest.raises(UserError, match="give with data the folder that has Fashion-MNIST"):
        fashion.read_fashion(tmp_path, seed=0)
