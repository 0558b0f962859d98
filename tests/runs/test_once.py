"""What a run needs of its images is read once."""

from collections import Counter

import numpy as np
import pytest
from PIL import Image

import newfound
from newfound.data import cache, store

TINY = {"network": "tiny", "data.size": 8, "stage1.epochs": 1, "stage1.warmup_epochs": 0}


@pytest.fixture
def trees(tmp_path):
    """220 known images, of which some are held out, and a pile of 20."""
    rng = np.random.default_rng(0)
    for place, count in {"known/a": 110, "known/b": 110, "pile/x": 10, "pile/y": 10}.items():
        (tmp_path / place).mkdir(parents=True)
        for i in range(count):
            Image.fromarray(rng.integers(0, 256, (8, 8, 3), np.uint8)).save(tmp_path / place / f"{i}.png")
    return {"labelled": tmp_path / "known", "unlabelled": tmp_path / "pile", "n_novel": 2, "cache": tmp_path / "cache"}


def test_discover_hashes_an_image_once_and_not_again_while_it_is_cached(trees, tmp_path, monkeypatch):
    hashed, real = Counter(), store.digest_images

    def digest(images):
        hashed.update(image.tobytes() for image in images)
        return real(images)

    for module in (store, cache):
        monkeypatch.setattr(module, "digest_images", digest)
    first = newfound.discover(**trees, out=tmp_path / "first", settings=TINY)
    assert first.result["images"]["test"] == 20
    assert len(hashed) == hashed.total() == 240
    newfound.discover(**trees, out=tmp_path / "second", settings=TINY)
    assert hashed.total() == 240
    collections = [(tmp_path / name / "collection.json").read_text() for name in ("first", "second")]
    assert collections[0] == collections[1]
