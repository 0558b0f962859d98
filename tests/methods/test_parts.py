"""What a method chooses for images, how it is chosen itself, and where its encoder comes from."""

import pytest
import torch
from methods_tiny import chosen

from newfound.config.settings import MultiViewSettings
from newfound.data.look import Look
from newfound.errors import UserError
from newfound.methods import default_method, get_method
from newfound.methods.parts.encoder import make_encoder
from newfound.methods.parts.views import make_views
from newfound.model import Encoder, Model
from newfound.nets.heads import LinearClassifier
from newfound.views.natural import natural_views


def look(side=40, background=250):
    return Look(images=100, side=side, background=background, share=0.8, colour=0.0)


def fitted(name, domain, device, side=40, **given):
    """The settings that a method takes for such images, and what it tells the person."""
    fits = get_method(name).fitted(look(side), domain, device, {key.replace("__", "."): v for key, v in given.items()})
    changes = {key: value for fit in fits for key, value in fit.changes.items()}
    return changes, [str(fit.choice) for fit in fits if fit.choice]


# What suits some images


@pytest.mark.parametrize(
    ("side", "domain", "device", "size"),
    [
        (10, "natural", "cpu", 16),
        (24, "natural", "cpu", 24),
        (40, "natural", "cpu", 32),
        (40, "natural", "cuda", 40),
        (300, "natural", "cuda", 64),
        (300, "symbolic", "cuda", 32),
    ],
)
def test_images_keep_their_size_up_to_what_a_device_can_train_on(side, domain, device, size):
    for name in ("apl", "kmeans"):
        changes, told = fitted(name, domain, device, side)
        assert changes["data.size"] == size
        (line,) = [line for line in told if "image size" in line]
        assert ("takes too long" in line) == (size < side)
        assert ("the images' own" in line) == (size == side)
        assert "data.size" not in fitted(name, domain, device, side, data__size=8)[0]


def test_apl_halves_the_local_views_of_natural_images_and_fills_the_background_of_symbols():
    assert fitted("apl", "natural", "cuda")[0] == {"data.size": 40, "views.extra_size": 20}
    assert fitted("apl", "symbolic", "cuda")[0] == {"data.size": 32, "views.fill": 250}
    assert fitted("apl", "symbolic", "cuda", views__fill=3)[0] == {"data.size": 32}


@pytest.mark.parametrize("name", ["autonovel", "dtc", "kcl", "mcl", "wta"])
def test_methods_of_two_whole_views_take_those_of_the_domain_and_leave_symbols_whole(name):
    assert fitted(name, "natural", "cuda")[0] == {"data.size": 40, "views.domain": "natural"}
    assert fitted(name, "natural", "cpu")[0] == {"network": "tiny", "data.size": 32, "views.domain": "natural"}
    symbols = {"data.size": 32, "views.domain": "symbolic", "views.padded": 0.0}
    assert fitted(name, "symbolic", "cuda")[0] == symbols | {"views.fill": 250}
    assert fitted(name, "symbolic", "cpu", views__fill=3)[0] == symbols | {"network": "vgg6"}
    assert "network" not in fitted(name, "symbolic", "cpu", network="tiny")[0]


@pytest.mark.parametrize("name", ["simclr", "moco", "mocov2", "rotation"])
def test_a_learner_by_itself_makes_the_views_of_the_domain_and_takes_a_small_network_on_a_cpu(name):
    assert fitted(name, "natural", "cpu")[0] == {"network": "tiny", "data.size": 32, "views.domain": "natural"}
    symbols = {"data.size": 32, "views.domain": "symbolic", "views.fill": 250, "cluster.algorithm": "spectral"}
    assert fitted(name, "symbolic", "cuda")[0] == symbols
    assert fitted(name, "symbolic", "cpu")[0] == symbols | {"network": "vgg6"}
    given = {"network": "tiny", "views__fill": 3, "cluster__algorithm": "kmeans"}
    assert fitted(name, "symbolic", "cpu", **given)[0] == {"data.size": 32, "views.domain": "symbolic"}


def test_the_k_means_row_takes_a_small_network_on_a_cpu_and_does_not_mirror_symbols():
    assert fitted("kmeans", "natural", "cpu")[0] == {"network": "tiny", "data.size": 32}
    assert fitted("kmeans", "natural", "cuda")[0] == {"data.size": 40}
    symbols = {"data.size": 32, "views.fill": 250, "views.flip": False, "cluster.algorithm": "spectral"}
    assert fitted("kmeans", "symbolic", "cpu")[0] == {"network": "vgg6"} | symbols
    assert fitted("kmeans", "symbolic", "cuda")[0] == symbols
    given = {"views__fill": 0, "cluster__algorithm": "kmeans", "network": "resnet18"}
    assert fitted("kmeans", "symbolic", "cpu", **given)[0] == {"data.size": 32, "views.flip": False}


def test_a_pretrained_network_has_an_image_size_of_its_own():
    assert fitted("apl-features", "natural", "cpu") == ({}, [])


@pytest.mark.parametrize(
    ("domain", "device", "images", "pretrained", "name"),
    [
        ("natural", "cpu", 10**5, True, "apl-features"),
        ("natural", "cuda", 10**5, True, "apl-features"),
        ("symbolic", "cuda", 4999, True, "apl-features"),
        ("symbolic", "cuda", 5000, True, "apl"),
        ("symbolic", "cpu", 5000, True, "apl-features"),
        ("natural", "cuda", 100, False, "apl"),
        ("natural", "cpu", 100, False, "kmeans"),
    ],
)
def test_the_default_is_a_pretrained_network_unless_there_are_many_symbols_and_a_gpu(
    domain, device, images, pretrained, name
):
    assert default_method(domain=domain, device=device, images=images, pretrained=pretrained) == name


# Where a method starts


def make_model(network="tiny", channels=1, size=8, dimension=0):
    torch.manual_seed(3)
    encoder = Encoder(network, channels, size, torch.zeros(channels), torch.ones(channels), dimension=dimension)
    return Model(encoder.requires_grad_(False), LinearClassifier(encoder.width, 3), ("a",), ("b", "c"), method="apl")


def test_a_method_goes_on_from_a_copy_of_the_encoder_it_starts_from(digits):
    start = make_model()
    encoder = make_encoder("tiny", digits, start)
    for ours, theirs in zip(encoder.parameters(), start.encoder.parameters(), strict=True):
        assert torch.equal(ours, theirs)
        assert ours is not theirs
        assert ours.requires_grad
        assert not theirs.requires_grad
    fresh = make_encoder("tiny", digits, None, dimension=24)
    assert fresh.width == 24
    mean, deviation = digits.train.channel_statistics()
    torch.testing.assert_close(fresh.normalise.mean.flatten(), mean)
    torch.testing.assert_close(fresh.normalise.std.flatten(), deviation)


@pytest.mark.parametrize("other", [{"network": "resnet18"}, {"channels": 3}, {"size": 16}, {"dimension": 24}], ids=str)
def test_an_encoder_for_other_images_or_settings_is_refused(digits, other):
    with pytest.raises(UserError, match="the model to start from has the network"):
        make_encoder("tiny", digits, make_model(**other))
    make_encoder("tiny", digits, make_model(dimension=24), dimension=24)


# What is checked before a run


@pytest.mark.parametrize("learner", ["none", "simclr", "moco", "mocov2", "rotation"])
def test_extra_views_too_small_for_the_network_are_refused_unless_nobody_looks_at_them(learner):
    small = {"network": "vgg6", "data__size": 32, "views__domain": "natural", "views__extra_size": 4}
    method = get_method("apl")
    with pytest.raises(UserError, match=r"cannot take extra views of 4: .* views\.extra_size=32"):
        method(chosen(**small)).check((1, 32, 32))
    method(chosen(**small, instance__learner=learner)).check((1, 32, 32))
    method(chosen(network="vgg6", data__size=32, views__extra=0)).check((1, 32, 32))


def test_stage_2_follows_with_the_epochs_of_all_its_iterations():
    assert get_method("apl")(chosen(selftraining__iterations=3, stage2__epochs=2)).later_epochs(None) == 6
    assert get_method("kmeans")(get_method("kmeans").Settings()).later_epochs(None) == 0


# Views


def test_views_take_what_is_set_and_leave_the_rest_to_the_domain():
    given = {
        "padded": 0.5,
        "jitter_probability": (0.6, 0.6, 0.8),
        "grey": 0.0,
        "solarise": (0.1, 0.1, 0.2),
        "random_threshold": True,
        "equalise": (0.1, 0.1, 0.2),
    }
    assert make_views(MultiViewSettings(**given), 32) == natural_views(32, **given)
    assert make_views(MultiViewSettings(), 32) == natural_views(32)
