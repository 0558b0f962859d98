"""What a run needs of its images is read once."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import newfound
from newfound.data import cache, folder, store
from newfound.data.sources import Request, Source
from newfound.engine import loop
from newfound.progress import Reporter

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


@pytest.mark.parametrize("with_labels", [False, True])
def test_discover_lists_a_folder_once(trees, tmp_path, monkeypatch, with_labels):
    opened, real = Counter(), folder._visible

    def visible(place):
        opened[Path(place).relative_to(tmp_path).as_posix()] += 1
        return real(place)

    if with_labels:
        rows = [f"{image.relative_to(tmp_path / 'known')},x" for image in (tmp_path / "known").rglob("*.png")]
        (tmp_path / "labels.csv").write_text("\n".join(["image,label", *rows]))
        trees["labels"] = tmp_path / "labels.csv"
    monkeypatch.setattr(folder, "_visible", visible)
    found = newfound.discover(**trees, out=tmp_path / "run", settings=TINY)
    assert found.result["auto"][0]["what"] == "domain"  # the images were looked at before they were read
    below = {place: count for place, count in opened.items() if "/" in place}
    assert below == {"known/a": 1, "known/b": 1, "pile/x": 1, "pile/y": 1}


def test_a_folder_that_was_read_is_listed_again_the_next_time(trees, tmp_path):
    places = {name: str(trees[name]) for name in ("labelled", "unlabelled")}
    source, request = Source(**places, n_novel=2), Request(8, 0, Reporter(quiet=True))
    assert len(source.list_images(tmp_path / "pile")) == 20
    assert source.read(request).collection.n_unlabelled == 20
    (tmp_path / "pile" / "x" / "0.png").unlink()
    assert source.read(request).collection.n_unlabelled == 19


def test_discover_reads_the_test_images_once(tmp_path, monkeypatch):
    passes, real = Counter(), loop.read_features

    def read(network, images, *rest, **options):
        passes[len(images)] += 1
        return real(network, images, *rest, **options)

    monkeypatch.setattr(loop, "read_features", read)
    quick = {"stage1.epochs": 1, "stage1.warmup_epochs": 0}
    found = newfound.discover(dataset="digits", method="kmeans", out=tmp_path / "run", settings=quick)
    assert passes[found.result["images"]["test"]] == 1
