"""ImageNet in its own layout, small: the split by WordNet ids, with and without val/, and what is not whole."""

import json
import shutil
from collections import Counter
from importlib.resources import files

import pytest
from reference.publishers import write_imagenet

from newfound.data.imagenet import Splits, published_splits, read_imagenet
from newfound.errors import UserError
from newfound.progress import Reporter

CLASSES = [f"n{k:08d}" for k in range(10)]
HELD_OUT = frozenset(CLASSES[k] for k in (1, 4, 5, 8))
SUBSETS = {"A": frozenset({CLASSES[1], CLASSES[5]}), "B": frozenset({CLASSES[5], CLASSES[8]})}
TOY = Splits(classes=10, held_out=HELD_OUT, subsets=SUBSETS)
KNOWN = tuple(name for name in CLASSES if name not in HELD_OUT)
QUIET = Reporter(quiet=True)


@pytest.fixture
def root(tmp_path):
    write_imagenet(tmp_path, CLASSES, {"train": 4, "val": 2})
    return tmp_path


def read(root, subset="A", seed=0, cache=None, splits=TOY):
    return read_imagenet(root, subset, seed, size=8, reporter=QUIET, cache=cache, splits=splits)


def refusal(root, **options):
    with pytest.raises(UserError) as caught:
        read(root, **options)
    assert "\n" not in str(caught.value)
    assert "requested from image-net.org" in str(caught.value)
    return str(caught.value)


def test_the_published_split_holds_118_classes_out_and_has_three_subsets_of_30():
    splits = published_splits()
    assert (splits.classes, len(splits.held_out)) == (1000, 118)
    assert {name: len(ids) for name, ids in splits.subsets.items()} == {"A": 30, "B": 30, "C": 30}
    assert all(ids < splits.held_out for ids in splits.subsets.values())
    assert all(len(splits.subsets[a] & splits.subsets[b]) == 7 for a, b in ("AB", "AC", "BC"))
    listed = json.loads((files("newfound.data") / "imagenet_splits.json").read_text())["held_out"]
    assert len(set(listed)) == len(listed)
    assert all(len(name) == 9 and name[0] == "n" and name[1:].isdigit() for name in listed)


@pytest.mark.parametrize("subset", ["A", "B"])
def test_all_but_the_held_out_classes_are_labelled_and_those_of_the_subset_hidden(root, subset):
    reading = read(root, subset)
    collection = reading.collection
    assert collection.classes == KNOWN
    assert (collection.n_labelled, collection.n_unlabelled, len(collection.test)) == (24, 8, 16)
    assert [(task.name, len(task.candidates)) for task in collection.tasks] == [("", 2)]
    assert Counter(reading.answers.unlabelled) == dict.fromkeys(SUBSETS[subset], 4)
    assert Counter(reading.answers.test) == dict.fromkeys([*KNOWN, *SUBSETS[subset]], 2)


def test_held_out_classes_that_are_not_in_the_subset_need_not_be_there(root):
    shutil.rmtree(root / "train" / CLASSES[8])
    shutil.rmtree(root / "train" / CLASSES[4])
    shutil.rmtree(root / "val" / CLASSES[8])
    assert len(read(root).collection.train) == 32


def test_each_row_is_the_image_of_its_name_and_class(root):
    reading = read(root)
    collection = reading.collection
    known = [collection.classes[label] for label in collection.labels[:24]]
    rows = [
        *zip(reading.names.labelled + reading.names.unlabelled, (*known, *reading.answers.unlabelled), strict=True),
        *zip(reading.names.test, reading.answers.test, strict=True),
    ]
    images = [*collection.train.images, *collection.test.images]
    for (name, category), image in zip(rows, images, strict=True):
        assert name.split("/")[1] == category
        assert abs(int(image[0, 0, 0]) - 5 * CLASSES.index(category)) <= 2
    assert collection.train.shape == (3, 8, 8)


def test_without_val_there_are_no_test_images(root):
    shutil.rmtree(root / "val")
    reading = read(root)
    assert reading.collection.test is None
    assert reading.answers.test is None


def test_the_order_of_unlabelled_and_test_images_is_drawn_from_the_seed(root):
    one, again, other = (read(root, seed=seed) for seed in (0, 0, 1))
    assert one.names == again.names
    assert one.names.unlabelled != other.names.unlabelled
    assert one.names.test != other.names.test
    assert list(one.names.unlabelled) != sorted(one.names.unlabelled)
    assert one.names.labelled == tuple(sorted(one.names.labelled))


def test_images_come_from_the_cache_the_second_time(root, tmp_path, monkeypatch):
    first = read(root, cache=tmp_path / "cache")
    monkeypatch.setattr("newfound.data.parallel.decode", lambda *_: pytest.fail("a file was decoded again"))
    assert read(root, cache=tmp_path / "cache").collection.fingerprint() == first.collection.fingerprint()


def test_files_that_cannot_be_read_are_skipped_with_their_reason(root):
    (root / "train" / CLASSES[0] / f"{CLASSES[0]}_1.JPEG").write_text("no image")
    (root / "val" / CLASSES[1] / "broken.JPEG").write_bytes(b"")
    reading = read(root)
    assert (reading.collection.n_labelled, reading.collection.n_unlabelled) == (23, 8)
    assert len(reading.collection.test) == 16
    assert {skip.file: skip.reason.split(",")[0] for skip in reading.skipped} == {
        str(root / "train" / CLASSES[0] / f"{CLASSES[0]}_1.JPEG"): "not an image",
        str(root / "val" / CLASSES[1] / "broken.JPEG"): "empty file (0 bytes)",
    }


# What is not whole


def test_data_that_is_missing_comes_with_how_to_obtain_it(tmp_path):
    message = refusal(tmp_path)
    assert f"{str(tmp_path)!r} has no folder train" in message
    assert "data" in message


def test_a_missing_labelled_class_is_noticed(root):
    shutil.rmtree(root / "train" / CLASSES[0])
    assert "has 5 folders of labelled classes, and ImageNet has 6" in refusal(root)


def test_a_folder_too_many_is_noticed(root):
    (root / "train" / "extra").mkdir()
    assert "has a folder 'extra', which is no WordNet id" in refusal(root)
    (root / "train" / "extra").rename(root / "train" / "n99999999")
    assert "has 7 folders of labelled classes, and ImageNet has 6" in refusal(root)


def test_missing_classes_of_the_subset_are_named(root):
    shutil.rmtree(root / "train" / CLASSES[5])
    assert f"lacks the classes of subset A: {CLASSES[5]};" in refusal(root)
    shutil.rmtree(root / "train" / CLASSES[1])
    assert f"lacks the classes of subset A: {CLASSES[1]} and 1 others;" in refusal(root)


def test_a_class_without_a_readable_image_is_refused(root):
    for path in (root / "train" / CLASSES[5]).iterdir():
        path.write_bytes(b"")
    assert f"{str(root / 'train' / CLASSES[5])!r} holds no readable image" in refusal(root)
    for path in (root / "train" / CLASSES[0]).iterdir():
        path.unlink()
    assert f"{str(root / 'train' / CLASSES[0])!r} holds no readable image" in refusal(root)


def test_a_val_folder_that_is_not_sorted_by_class_is_refused_with_what_to_do(root):
    shutil.rmtree(root / "val")
    (root / "val").mkdir()
    (root / "val" / "ILSVRC2012_val_00000001.JPEG").write_bytes(b"")
    message = refusal(root)
    assert f"{str(root / 'val')!r} has no folder {CLASSES[0]}" in message
    assert "or remove val/ to do without test images" in message


def test_an_unknown_subset_is_refused_with_the_known_ones(root):
    with pytest.raises(UserError, match="no subset D; there are: A, B"):
        read(root, "D")


def test_a_class_with_too_few_images_is_noticed(root):
    import dataclasses

    strict = dataclasses.replace(TOY, fewest=10**6)
    with pytest.raises(UserError, match="and ImageNet at least 1,000,000: not whole"):
        read_imagenet(root, "A", 0, size=8, reporter=QUIET, cache=None, splits=strict)
