"""The rehearsal of CIFAR-10's task looks at labelled classes alone."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from newfound.data.collection import Pool, assemble
from newfound.data.store import ImageStore

REHEARSAL = Path(__file__).parents[2] / "benchmarks" / "rehearsal"


@pytest.fixture
def mixed(monkeypatch):
    monkeypatch.syspath_prepend(str(REHEARSAL))
    import mixed

    return mixed


def collection(level, known, novel):
    """Two images of each category, all of one grey ``level`` where they are labelled, of 0 where they are not."""
    names = [name for name in (*known, *novel) for _ in range(2)]
    n = 2 * len(known)
    pixels = np.full((len(names), 3, 32, 32), level, np.uint8)
    pixels[n:] = 0
    pool = Pool(ImageStore(pixels), names, names)
    rows = np.arange(len(names))
    read = assemble(pool, labelled=rows[:n], unlabelled=rows[n:], n_novel=len(novel), seed=0).collection
    return lambda root, seed: SimpleNamespace(collection=read)


def test_labelled_classes_of_one_are_known_and_those_of_the_other_play_the_novel_ones(mixed, monkeypatch):
    monkeypatch.setattr(mixed, "read_cifar10", collection(10, ["bird", "cat"], ["dog"]))
    monkeypatch.setattr(mixed, "read_cifar100", collection(100, ["bear", "lion", "bus", "apple"], ["wolf"]))
    reading = mixed.read_mixed(Path(), seed=0)
    found = reading.collection
    assert found.classes == ("large carnivores", "vehicles 1")
    assert found.labels.tolist() == [0, 0, 0, 0, 1, 1, -1, -1, -1, -1]
    assert sorted(reading.answers.unlabelled) == ["bird", "bird", "cat", "cat"]
    assert found.train.images[:, 0, 0, 0].tolist() == [100] * 6 + [10] * 4
