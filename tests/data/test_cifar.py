"""CIFAR-10 and CIFAR-100 in the publishers' layout, small: the splits, and which damage is named."""

import dataclasses
from collections import Counter

import numpy as np
import pytest
from reference.publishers import (
    CIFAR10_NAMES,
    CIFAR100_NAMES,
    cifar_images,
    cifar_labels,
    python2_pickle,
    write_batch,
    write_cifar10,
    write_cifar100,
)

from newfound.data import cifar
from newfound.data.cifar import read_cifar10, read_cifar10_rehearsal, read_cifar100, read_cifar100_rehearsal
from newfound.errors import UserError

CIFAR10 = dataclasses.replace(cifar.CIFAR10, train_per_class=10, test_per_class=2)
CIFAR100 = dataclasses.replace(cifar.CIFAR100, train_per_class=2, test_per_class=1)


@pytest.fixture
def ten(tmp_path):
    return write_cifar10(tmp_path)


@pytest.fixture(scope="module")
def hundred(tmp_path_factory):
    return write_cifar100(tmp_path_factory.mktemp("data"))


def refusal(root, read=read_cifar10, layout=CIFAR10):
    with pytest.raises(UserError) as caught:
        read(root, 0, layout=layout)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def labels_by_name(reading):
    """The category of each image by the name that people know it by."""
    known = [reading.collection.classes[label] for label in reading.collection.labels[: reading.collection.n_labelled]]
    names = reading.names.labelled + reading.names.unlabelled + reading.names.test
    return dict(zip(names, (*known, *reading.answers.unlabelled, *reading.answers.test), strict=True))


def pixels_by_name(reading):
    train = dict(zip(reading.names.labelled + reading.names.unlabelled, reading.collection.train.images, strict=True))
    return train | dict(zip(reading.names.test, reading.collection.test.images, strict=True))


def test_the_published_sets_have_the_published_numbers():
    for layout, classes, train, test in ((cifar.CIFAR10, 10, 5000, 1000), (cifar.CIFAR100, 100, 500, 100)):
        assert (layout.classes, layout.train_per_class, layout.test_per_class) == (classes, train, test)


def test_cifar10_labels_its_first_five_classes_and_hides_the_others(ten):
    reading = read_cifar10(ten.parent, 0, layout=CIFAR10)
    collection = reading.collection
    assert collection.classes == ("airplane", "automobile", "bird", "cat", "deer")
    assert (collection.n_labelled, collection.n_unlabelled, len(collection.test)) == (50, 50, 20)
    assert [(task.name, len(task.candidates)) for task in collection.tasks] == [("", 5)]
    assert Counter(reading.answers.unlabelled) == dict.fromkeys(CIFAR10_NAMES[5:], 10)
    assert Counter(reading.answers.test) == dict.fromkeys(CIFAR10_NAMES, 2)
    assert reading.skipped == ()


def test_every_image_has_its_pixels_and_its_label_under_the_number_it_has_in_the_files(ten):
    reading = read_cifar10(ten.parent, 5, layout=CIFAR10)
    expected = {f"train-{i:05d}": CIFAR10_NAMES[label] for i, label in enumerate(cifar_labels(10, 10, 1))}
    expected |= {f"test-{i:05d}": CIFAR10_NAMES[label] for i, label in enumerate(cifar_labels(10, 2, 3))}
    assert labels_by_name(reading) == expected
    images = {f"train-{i:05d}": image for i, image in enumerate(cifar_images(100, 0))}
    images |= {f"test-{i:05d}": image for i, image in enumerate(cifar_images(20, 2))}
    found = pixels_by_name(reading)
    assert found.keys() == images.keys()
    assert all(np.array_equal(found[name].flatten(), images[name]) for name in images)


def test_planes_are_red_then_green_then_blue(tmp_path):
    folder = write_cifar10(tmp_path)
    image = np.repeat(np.array([200, 100, 50], np.uint8), 1024)
    image[1] = 7  # the second pixel of the first row
    write_batch(folder / "test_batch", b"", np.tile(image, (20, 1)), labels=cifar_labels(10, 2, 3))
    (pixels, *_) = read_cifar10(tmp_path, 0, layout=CIFAR10).collection.test.images
    assert pixels[:, 5, 9].tolist() == [200, 100, 50]
    assert pixels[:, 0, 1].tolist() == [7, 100, 50]


def test_the_order_in_the_files_does_not_reach_unlabelled_and_test_images(ten):
    one, again, other = (read_cifar10(ten.parent, seed, layout=CIFAR10) for seed in (0, 0, 1))
    assert one.names == again.names
    assert one.collection.fingerprint() == again.collection.fingerprint()
    for part in ("unlabelled", "test"):
        names = getattr(one.names, part)
        assert list(names) != sorted(names)
        assert names != getattr(other.names, part)
        assert sorted(names) == sorted(getattr(other.names, part))


def test_the_folder_itself_will_do(ten):
    assert read_cifar10(ten, 0, layout=CIFAR10).names == read_cifar10(ten.parent, 0, layout=CIFAR10).names


@pytest.mark.parametrize(("known", "labelled"), [(80, 160), (50, 100)])
def test_cifar100_labels_its_first_classes_and_hides_the_others(hundred, known, labelled):
    reading = read_cifar100(hundred.parent, 0, known=known, layout=CIFAR100)
    collection = reading.collection
    assert collection.classes == tuple(CIFAR100_NAMES[:known])
    assert (collection.n_labelled, collection.n_unlabelled, len(collection.test)) == (labelled, 200 - labelled, 100)
    assert collection.n_novel == 100 - known
    assert set(reading.answers.unlabelled) == set(CIFAR100_NAMES[known:])
    assert set(reading.answers.test) == set(CIFAR100_NAMES)


def test_cifar100_goes_by_its_fine_labels(hundred):
    found = labels_by_name(read_cifar100(hundred, 0, layout=CIFAR100))
    assert [found[f"train-{i:05d}"] for i in range(200)] == [CIFAR100_NAMES[k] for k in cifar_labels(100, 2, 0)]


def test_the_rehearsal_leaves_the_real_novel_classes_out_of_everything(hundred):
    reading = read_cifar100_rehearsal(hundred, 0, layout=CIFAR100)
    collection = reading.collection
    assert collection.classes == tuple(CIFAR100_NAMES[:64])
    assert collection.n_novel == 16
    assert Counter(reading.answers.unlabelled) == dict.fromkeys(CIFAR100_NAMES[64:80], 2)
    assert Counter(reading.answers.test) == dict.fromkeys(CIFAR100_NAMES[:80], 1)
    assert (collection.n_labelled, collection.n_unlabelled) == (128, 32)


def test_the_smaller_rehearsal_does_so_too(ten):
    reading = read_cifar10_rehearsal(ten, 0, layout=CIFAR10)
    collection = reading.collection
    assert collection.classes == tuple(CIFAR10_NAMES[:3])
    assert collection.n_novel == 2
    assert set(reading.answers.unlabelled) == set(CIFAR10_NAMES[3:5])
    assert set(reading.answers.test) == set(CIFAR10_NAMES[:5])


# What is not the publishers'


def test_data_that_is_missing_comes_with_how_to_obtain_it(tmp_path):
    message = refusal(tmp_path)
    assert f"{str(tmp_path)!r} has no folder cifar-10-batches-py" in message
    assert "`newfound data get cifar10 --to ROOT`" in message
    assert "data" in message
    assert "`newfound data get cifar100 --to ROOT`" in refusal(tmp_path, read_cifar100, CIFAR100)
    assert "has no folder" in refusal(tmp_path / "nowhere")


@pytest.mark.parametrize("name", ["data_batch_3", "test_batch", "batches.meta"])
def test_a_missing_file_is_named(ten, name):
    (ten / name).unlink()
    assert f"{str(ten)!r} has no file {name}: it is not whole" in refusal(ten.parent)


def test_other_files_in_the_folder_do_no_harm(ten):
    (ten / "readme.html").write_text("about CIFAR")
    (ten / "data_batch_6").write_text("not theirs")
    assert len(read_cifar10(ten, 0, layout=CIFAR10).collection.train) == 100


def rewrite(folder, name="data_batch_2", images=None, **labels):
    images = cifar_images(20, 9) if images is None else images
    write_batch(folder / name, b"", images, **(labels or {"labels": cifar_labels(10, 2, 9)}))


@pytest.mark.parametrize("shape", [(20, 3071), (19, 3072), (40, 1536), (61440,), (20, 96, 32)])
def test_images_of_a_wrong_shape_are_refused_with_what_was_found_and_expected(ten, shape):
    rewrite(ten, images=np.zeros(shape, np.uint8))
    message = refusal(ten.parent)
    assert f"{str(ten / 'data_batch_2')!r} has images of shape {list(shape)}" in message
    assert "are of shape [20, 3072]" in message


@pytest.mark.parametrize("label", [10, 255, -1, 70000])
def test_a_label_out_of_range_is_refused(ten, label):
    rewrite(ten, labels=[*cifar_labels(10, 2, 9)[:-1], label])
    message = refusal(ten.parent)
    assert f"{str(ten / 'data_batch_2')!r} has the label {label} under labels" in message
    assert "go from 0 to 9" in message


def test_labels_that_are_missing_or_no_numbers_or_too_few_are_refused(ten):
    rewrite(ten, fine_labels=[0] * 20)
    assert "no list of whole numbers under the name labels" in refusal(ten.parent)
    rewrite(ten, labels=[b"0"] * 20)
    assert "no list of whole numbers under the name labels" in refusal(ten.parent)
    rewrite(ten, labels=[0] * 19)
    assert "has 19 labels for 20 images" in refusal(ten.parent)


def test_a_file_without_images_is_refused(ten):
    (ten / "data_batch_2").write_bytes(python2_pickle({b"labels": [0] * 20, b"data": b"text"}))
    assert f"{str(ten / 'data_batch_2')!r} has no array of images" in refusal(ten.parent)


def test_a_class_with_another_number_of_images_is_refused(ten):
    (ten / "data_batch_2").write_bytes((ten / "data_batch_1").read_bytes())
    assert "training images of class" in refusal(ten.parent)
    rewrite(ten, "test_batch", labels=[0] * 20)
    rewrite(ten, labels=cifar_labels(10, 10, 1)[20:40])
    message = refusal(ten.parent)
    assert "has 20 test images of class 0 (airplane)" in message
    assert "publishers' files have 2" in message


@pytest.mark.parametrize(
    "names", [CIFAR10_NAMES[:9], [*CIFAR10_NAMES, "extra"], ["cat"] * 10, [1] * 10, None, 7, {b"a": b"b"}]
)
def test_class_names_that_are_not_ten_are_refused(ten, names):
    names = [name.encode() if isinstance(name, str) else name for name in names] if isinstance(names, list) else names
    (ten / "batches.meta").write_bytes(python2_pickle({b"label_names": names} if names is not None else {}))
    assert f"{str(ten / 'batches.meta')!r} names" in refusal(ten.parent)


def test_a_malicious_or_truncated_file_is_refused(ten):
    (ten / "data_batch_4").write_bytes(b"\x80\x02cos\nsystem\nU\x04true\x85R.")
    message = refusal(ten.parent)
    assert f"{str(ten / 'data_batch_4')!r} asks for os.system, which no CIFAR file does: it is not loaded" in message
    (ten / "data_batch_4").write_bytes((ten / "data_batch_3").read_bytes()[:-100])
    assert f"{str(ten / 'data_batch_4')!r} is truncated" in refusal(ten.parent)
