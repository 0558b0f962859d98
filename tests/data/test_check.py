"""What `data check` finds: images and classes of each part, channel means, the tasks, and how long reading took."""

import dataclasses
import json

import pytest
from reference.publishers import cifar_images, write_cifar10, write_omniglot

from newfound.data import cifar, omniglot
from newfound.data.check import check_data
from newfound.errors import UserError


def test_digits_are_counted_without_a_root():
    found = check_data("digits", None)
    assert found["name"] == "digits"
    assert found["labelled"] == {"images": 669, "classes": 5}
    assert found["unlabelled"] == {"images": 679, "classes": 5}
    assert found["test"] == {"images": 449, "classes": 10}
    assert "tasks" not in found
    assert found["seconds"] >= 0
    assert json.loads(json.dumps(found)) == found


def test_means_are_over_all_training_images_and_no_other(tmp_path, monkeypatch):
    write_cifar10(tmp_path)
    layout = dataclasses.replace(cifar.CIFAR10, train_per_class=10, test_per_class=2)
    monkeypatch.setitem(cifar.read_cifar10.__kwdefaults__, "layout", layout)
    found = check_data("cifar10", tmp_path)
    assert found["labelled"] == found["unlabelled"] == {"images": 50, "classes": 5}
    assert found["test"] == {"images": 20, "classes": 10}
    means = cifar_images(100, 0).reshape(100, 3, 1024).mean((0, 2)) / 255
    assert found["means"] == pytest.approx(means, abs=6e-5)
    assert found["means"] == [round(mean, 4) for mean in found["means"]]


def test_tasks_are_counted_each(tmp_path, monkeypatch):
    write_omniglot(tmp_path, "images_background", {"Greek": 4}, drawings=3)
    write_omniglot(tmp_path, "images_evaluation", {"Angelic": 2, "Keble": 3}, drawings=3)
    defaults = omniglot.read_omniglot.__kwdefaults__
    monkeypatch.setitem(defaults, "background", omniglot.Layout("images_background", 1, 4, 3))
    monkeypatch.setitem(defaults, "evaluation", omniglot.Layout("images_evaluation", 2, 5, 3))
    found = check_data("omniglot", tmp_path, size=21, cache=tmp_path / "cache")
    assert found["labelled"] == {"images": 12, "classes": 4}
    assert found["unlabelled"] == {"images": 15, "classes": 5}
    assert found["test"] == {"images": 0, "classes": 0}
    assert found["tasks"] == {"Angelic": {"images": 6, "classes": 2}, "Keble": {"images": 9, "classes": 3}}
    assert len(found["means"]) == 1
    assert found["means"][0] > 0.9


def test_data_that_is_missing_or_has_no_name_is_refused(tmp_path):
    with pytest.raises(UserError, match="newfound data get cifar100 --to ROOT"):
        check_data("cifar100", tmp_path)
    with pytest.raises(UserError, match="give data ROOT"):
        check_data("cifar100", None)
    with pytest.raises(UserError, match="there is no data set cifar1000"):
        check_data("cifar1000", tmp_path)
