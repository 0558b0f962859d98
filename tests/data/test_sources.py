"""Where collections come from: names of data sets with their roots, or folders; and which calls make no sense."""

import dataclasses
import os

import pytest
from PIL import Image
from reference.publishers import write_cifar100, write_omniglot

from newfound.data import cifar, omniglot
from newfound.data.sources import DATASETS, Request, Source
from newfound.errors import UserError
from newfound.progress import Reporter

REQUEST = Request(size=8, seed=0, reporter=Reporter(quiet=True))
WITH_FILES = [name for name in DATASETS if not name.startswith("digits")]


def refusal(**source):
    with pytest.raises(UserError) as caught:
        Source(**source)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_data_sets_of_the_paper_and_the_rehearsals_are_there():
    assert list(DATASETS) == [
        "digits", "digits-rehearsal", "cifar10", "cifar10-rehearsal", "cifar100", "cifar100-50", "cifar100-rehearsal",
        "omniglot", "omniglot-rehearsal", "imagenet-a", "imagenet-b", "imagenet-c",
    ]  # fmt: skip


@pytest.mark.parametrize("name", WITH_FILES)
def test_a_data_set_with_files_says_how_to_obtain_them_where_no_root_is_given(name):
    message = refusal(dataset=name)
    assert message.startswith(f"the data set {name} is read from files: give data ROOT; ")
    if name.startswith("imagenet"):
        assert "requested from image-net.org" in message
    else:
        assert f"`newfound data get {name.split('-')[0]} --to ROOT`" in message


@pytest.mark.parametrize("name", WITH_FILES)
def test_a_root_without_the_data_is_refused_when_it_is_read(name, tmp_path):
    with pytest.raises(UserError, match=r"newfound data get|image-net\.org"):
        Source(dataset=name, data=str(tmp_path)).read(REQUEST)


def test_digits_need_no_root():
    assert len(Source(dataset="digits").read(REQUEST).collection.train) == 1348
    rehearsal = Source(dataset="digits-rehearsal").read(REQUEST)
    assert rehearsal.collection.classes == ("0", "2")
    assert set(rehearsal.answers.unlabelled) == {"4", "6", "8"}
    assert set(rehearsal.answers.test) == {"0", "2", "4", "6", "8"}


def test_a_root_goes_with_a_data_set_only():
    message = refusal(labelled="known", unlabelled="pile", n_novel=2, data="root")
    assert "name the data set with dataset" in message


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ({}, "give labelled and unlabelled folders"),
        ({"labelled": "known"}, "give labelled and unlabelled folders"),
        ({"dataset": "digits", "labelled": "known"}, "either dataset or labelled"),
        ({"dataset": "mnist"}, "there is no data set mnist; there are: digits, digits-rehearsal, cifar10"),
        ({"labelled": "known", "unlabelled": "pile"}, "say with n_novel"),
        ({"dataset": "digits", "n_novel": 0}, "at least one category"),
        ({"labelled": "known", "unlabelled": "pile", "n_novel": 0}, "at least one category"),
    ],
)
def test_calls_that_make_no_sense_are_refused(source, complaint):
    assert complaint in refusal(**source)


def test_absolute_paths_do_not_depend_on_where_one_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source = Source(dataset="cifar10", data="root").absolute()
    assert source == Source(dataset="cifar10", data=str(tmp_path / "root"))
    folders = Source(labelled="a", unlabelled="b", labels="c.csv", n_novel=3).absolute()
    assert [folders.labelled, folders.unlabelled, folders.labels] == [
        str(tmp_path / name) for name in ("a", "b", "c.csv")
    ]
    assert (folders.data, folders.n_novel) == (None, 3)


def shrink(monkeypatch, module, **layouts):
    """Let the readers of a module expect small sets, whose layouts are the defaults of keyword arguments."""
    for name, layout in layouts.items():
        for reader in (value for key, value in vars(module).items() if key.startswith("read_")):
            if name in (reader.__kwdefaults__ or {}):
                monkeypatch.setitem(reader.__kwdefaults__, name, layout)


@pytest.mark.parametrize(
    ("name", "labelled", "novel", "tested"),
    [("cifar100", 160, 20, 100), ("cifar100-50", 100, 50, 100), ("cifar100-rehearsal", 128, 16, 80)],
)
def test_each_name_of_cifar100_has_its_split(tmp_path, monkeypatch, name, labelled, novel, tested):
    write_cifar100(tmp_path)
    layout = dataclasses.replace(cifar.CIFAR100, train_per_class=2, test_per_class=1)
    shrink(monkeypatch, cifar, layout=layout)
    collection = Source(dataset=name, data=str(tmp_path)).read(REQUEST).collection
    assert (collection.n_labelled, collection.n_novel, len(collection.test)) == (labelled, novel, tested)


def test_omniglot_is_read_in_the_size_and_through_the_cache_of_the_request(tmp_path, monkeypatch):
    write_omniglot(tmp_path / "root", "images_background", {"Greek": 2}, drawings=3)
    write_omniglot(tmp_path / "root", "images_evaluation", {"Angelic": 2, "Keble": 2}, drawings=3)
    shrink(
        monkeypatch,
        omniglot,
        background=omniglot.Layout("images_background", 1, 2, 3),
        evaluation=omniglot.Layout("images_evaluation", 2, 4, 3),
    )
    source = Source(dataset="omniglot", data=str(tmp_path / "root"))
    request = dataclasses.replace(REQUEST, size=16, cache=tmp_path / "cache")
    assert source.read(request).collection.train.shape == (1, 16, 16)
    assert os.listdir(tmp_path / "cache")


@pytest.mark.parametrize("subset", "ABC")
def test_each_name_of_imagenet_reads_its_subset(tmp_path, monkeypatch, subset):
    asked = []
    monkeypatch.setattr(
        "newfound.data.imagenet.read_imagenet", lambda root, subset, seed, **_: asked.append((root, subset, seed))
    )
    Source(dataset=f"imagenet-{subset.lower()}", data=str(tmp_path)).read(dataclasses.replace(REQUEST, seed=4))
    assert asked == [(tmp_path, subset, 4)]


def test_folders_are_read_with_the_number_asked_for(tmp_path):
    for grey, path in enumerate(("known/a/1.png", "pile/2.png", "pile/3.png")):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (9, 9), (grey,) * 3).save(tmp_path / path)
    source = Source(labelled=str(tmp_path / "known"), unlabelled=str(tmp_path / "pile"), n_novel=2)
    collection = source.read(REQUEST).collection
    assert (collection.n_labelled, collection.n_unlabelled, collection.n_novel) == (1, 2, 2)
    assert collection.train.shape == (3, 8, 8)


def test_a_data_set_without_a_mixed_pile_refuses_mixed():
    message = refusal(dataset="omniglot", data="root", mixed=True)
    assert message.startswith("mixed: the data set omniglot has no mixed pile; those that have: digits, ")
    assert "cifar10" in message


@pytest.mark.parametrize(("name", "labelled"), [("cifar100", 80), ("cifar100-rehearsal", 64)])
def test_half_of_the_known_images_go_into_the_pile_of_a_mixed_data_set(tmp_path, monkeypatch, name, labelled):
    write_cifar100(tmp_path)
    layout = dataclasses.replace(cifar.CIFAR100, train_per_class=2, test_per_class=1)
    shrink(monkeypatch, cifar, layout=layout)
    collection = Source(dataset=name, data=str(tmp_path), mixed=True).read(REQUEST).collection
    assert collection.n_labelled == labelled
    assert collection.mixed
    assert collection.n_unlabelled == 200 - labelled if name == "cifar100" else 160 - labelled
