import json

import numpy as np
import pytest

from newfound.config.mapping import from_mapping, override, to_mapping
from newfound.errors import UserError
from newfound.methods import get_method
from newfound.methods.kmeans import KMeansSettings
from newfound.plan.recipe import load_recipe, parse_changes, recipe_names, resolve_settings


@pytest.mark.parametrize("name", recipe_names())
def test_every_recipe_is_complete_and_valid(name):
    mapping = load_recipe(name)
    settings = get_method(mapping["method"]).Settings
    from_mapping(settings, mapping, name)
    missing = set(to_mapping(settings())) - set(mapping)
    assert not missing, f"{name} leaves out {missing}"


def test_settings_survive_the_way_to_a_file_and_back():
    settings = resolve_settings("kmeans", "kmeans-digits", {"stage1.milestones": [3, 5.5]})
    assert from_mapping(KMeansSettings, to_mapping(settings), "file") == settings


def test_values_of_numpy_are_taken_for_what_they_are():
    changes = {
        "stage1.epochs": np.int64(3),
        "stage1.lr": np.float64(0.5),
        "stage1.nesterov": np.bool_(True),
        "stage1.optimiser": np.str_("sgd"),
        "stage1.milestones": np.array([3, 5]),
        "network": np.str_("tiny"),
    }
    plain = {name: value.tolist() for name, value in changes.items()}
    settings = resolve_settings("kmeans", "kmeans-digits", changes)
    assert settings == resolve_settings("kmeans", "kmeans-digits", plain)
    json.dumps(to_mapping(settings))


def test_a_change_goes_over_the_recipe_and_leaves_the_rest():
    settings = resolve_settings("kmeans", "kmeans-digits", {"stage1.epochs": 3, "network": "resnet18"})
    assert (settings.stage1.epochs, settings.stage1.batch, settings.network) == (3, 64, "resnet18")


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"stage1.epoch": 3}, r"no setting stage1.epoch; did you mean stage1.epochs\?"),
        ({"Stage1.epochs": 3}, r"no setting Stage1; did you mean stage1\?"),
        ({"stage1.nonsense": 3}, "no setting stage1.nonsense; there are: stage1.epochs, stage1.batch"),
        ({"nonsense": 3}, "no setting nonsense; there are: method, network"),
        ({"stage1.epochs": "many"}, "stage1.epochs should be of type int"),
        ({"stage1.epochs": 2.5}, "stage1.epochs should be of type int"),
        ({"stage1.epochs": True}, "stage1.epochs should be of type int"),
        ({"stage1.epochs": 0}, "stage1.epochs is 0; it has to be from 1 to 1,000,000"),
        ({"stage1.epochs": 10**7}, "stage1.epochs is 10000000; it has to be from 1 to 1,000,000"),
        ({"stage1.epochs": 10**5000}, "stage1.epochs is .{1,80}; it has to be"),
        ({"stage1.batch": 10**7}, "stage1.batch is 10000000; it has to be from 2 to 1,000,000"),
        ({"stage1.lr": float("inf")}, "stage1.lr is inf; it has to be finite"),
        ({"stage1.lr": ".nan"}, "stage1.lr should be of type float"),
        ({"stage1.lr": float("nan")}, "stage1.lr is nan; it has to be finite"),
        ({"stage1.lr": "nan"}, "stage1.lr is 'nan'; it has to be finite"),
        ({"stage1.lr": 10**400}, "stage1.lr should be of type float"),
        ({"stage1.milestones": [3, float("inf")]}, "stage1.milestones is inf; it has to be finite"),
        ({"stage1.milestones": [3, -5]}, "stage1.milestones is .3.0, -5.0.; they are epochs, from 0 on"),
        ({"stage1.nesterov": True, "stage1.momentum": 0}, "settings: stage1.nesterov needs a momentum above 0"),
        ({"network": "foo"}, "settings: network is 'foo'; it can be resnet18, "),
        ({"method": "foo"}, "choose it with method"),
        ({"stage1.momentum": 1.5}, "it has to be from 0 to 1"),
        ({"stage1.optimiser": "lion"}, "it can be sgd, adam, adamw"),
        ({"stage1.milestones": 3}, "should be a list"),
        ({"stage1": 5}, "stage1 should hold names and values"),
        ({"stage1.lr.deep": 5}, "stage1.lr should be of type float"),
        ({"views.flip": "yes"}, "views.flip should be of type bool"),
    ],
)
def test_what_does_not_fit_is_refused_with_a_sentence(changes, complaint):
    with pytest.raises(UserError, match=complaint):
        resolve_settings("kmeans", "kmeans-digits", changes)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"views.whole_scale": [0.5]}, "views.whole_scale is .0.5.; it has to be two numbers above 0"),
        ({"views.extra_scale": [0.5, 0.2]}, "the smaller one first"),
        ({"views.whole_scale": [0.0, 1.0]}, "views.whole_scale is .0.0, 1.0.; it has to be two numbers above"),
        ({"views.extra_size": 1}, "views.extra_size is 1; it has to be from 4 to 1,024"),
        ({"views.blur": [1]}, "views.blur is .1.0.; it has to be three probabilities"),
        ({"views.blur": [0, 2, 0]}, "it has to be three probabilities, from 0 to 1"),
        ({"views.jitter_probability": [0.6, 0.6]}, "views.jitter_probability is .0.6, 0.6.; it has to be three"),
        ({"views.solarise": [0, 0, -0.1]}, "views.solarise is .0.0, 0.0, -0.1.; it has to be three probabilities"),
        ({"views.equalise": [0.1]}, "views.equalise is .0.1.; it has to be three probabilities"),
        ({"views.padded": 1.5}, "views.padded is 1.5; it has to be from 0 to 1"),
        ({"views.grey": -1}, "views.grey is -1.0; it has to be from 0 to 1"),
        ({"stage2.nesterov": True, "stage2.momentum": 0}, "stage2.nesterov needs a momentum above 0"),
        ({"selftraining.iterations": -1}, "selftraining.iterations is -1; it has to be from 0"),
        ({"selftraining.labels": "online", "online": False}, "selftraining.labels=online needs online prototypes"),
    ],
)
def test_what_views_and_stages_cannot_do_is_refused_before_anything_is_trained(changes, complaint):
    with pytest.raises(UserError, match=complaint):
        resolve_settings("apl", "apl-digits", changes)


def test_an_unknown_method_lists_the_known_ones():
    with pytest.raises(UserError, match=r"there is no method other; there are: apl, apl-features, .*kmeans"):
        resolve_settings("other", "kmeans-digits", {})


def test_numbers_that_yaml_takes_for_strings_are_numbers():
    assert resolve_settings("kmeans", "kmeans-digits", parse_changes(["stage1.lr=1e-3"])).stage1.lr == 0.001


def test_set_needs_a_name_and_a_value():
    for text in ("stage1.epochs", "=3"):
        with pytest.raises(UserError, match="name=value"):
            parse_changes([text])
    with pytest.raises(UserError, match="cannot be read"):
        parse_changes(["a=[1, "])


def test_override_changes_no_original():
    before = {"a": {"b": {"c": 1}}}
    assert override(before, {"a.b.c": 2, "a.d": 3}) == {"a": {"b": {"c": 2}, "d": 3}}
    assert before == {"a": {"b": {"c": 1}}}


def test_a_recipe_can_be_a_file_and_a_bad_one_says_why(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("method: kmeans\nstage1: {epochs: 2}\n")
    assert resolve_settings("kmeans", str(path), {}).stage1.epochs == 2
    path.write_text("method: [")
    with pytest.raises(UserError, match="not valid YAML"):
        resolve_settings("kmeans", str(path), {})
    path.write_text("!!python/object/apply:os.system ['true']")
    with pytest.raises(UserError, match="not valid YAML"):
        resolve_settings("kmeans", str(path), {})
    with pytest.raises(UserError, match="there is no recipe"):
        resolve_settings("kmeans", "no-such", {})


def test_a_message_shows_the_beginning_of_a_long_value(tmp_path):
    bomb = ["a0: &a0 [x, x, x, x, x, x, x, x]"]
    bomb += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 8)}]" for i in range(1, 8)]
    path = tmp_path / "bomb.yaml"
    for place in ("stage1", "log_every", "method"):
        path.write_text("{" + ", ".join([*bomb, "method: kmeans", f"{place}: *a7"]) + "}")
        with pytest.raises(UserError) as caught:
            resolve_settings("kmeans", str(path), {})
        assert len(str(caught.value)) < 400 + len(str(path))
    for value in ("x" * 10**6, [["x" * 100] * 100] * 100, {"a" * 1000: 1}):
        for name in ("stage1.epochs", "stage1", "network", "stage1.optimiser", "stage1.milestones"):
            with pytest.raises(UserError) as caught:
                resolve_settings("kmeans", "kmeans-digits", {name: value})
            assert len(str(caught.value)) < 400


@pytest.mark.parametrize("value", ["9" * 5000, "!!timestamp x", "[" * 5000])
def test_a_value_that_yaml_trips_over_is_refused(value, tmp_path):
    with pytest.raises(UserError, match="cannot be read") as caught:
        parse_changes([f"a={value}"])
    assert len(str(caught.value)) < 200
    path = tmp_path / "mine.yaml"
    path.write_text(f"method: {value}")
    with pytest.raises(UserError, match="not valid YAML"):
        resolve_settings("kmeans", str(path), {})


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"instance.learner": "none", "category": False}, "leave stage I nothing to learn"),
        ({"stage1.batch": 1}, "batch"),
        ({"stage2.batch": 1}, "batch"),
        ({"dino.teacher_temperature": 0.0}, "teacher_temperature"),
    ],
)
def test_what_could_not_train_is_refused(changes, complaint):
    with pytest.raises(UserError, match=complaint):
        resolve_settings("apl", "apl-digits", changes)


@pytest.mark.parametrize(
    ("network", "size", "changes"),
    [
        ("vgg6", 32, {"views.extra_size": 16}),
        ("vit-tiny-16", 32, {"views.domain": "natural"}),
        ("vgg6", 8, {}),
        ("tiny", 4, {}),
        ("resnet18", 96, {"views.blur": [1, 1, 1], "views.extra_size": 4, "views.domain": "natural"}),
    ],
)
def test_views_that_the_network_cannot_take_are_refused(network, size, changes):
    settings = resolve_settings("apl", "apl-digits", changes | {"network": network})
    with pytest.raises(UserError, match=r"the network .* (cannot take|needs images)|blur_kernel is 13"):
        get_method("apl")(settings).check((3, size, size))


@pytest.mark.parametrize(
    ("network", "size", "changes"),
    [
        ("vgg6", 32, {}),
        ("vgg6", 32, {"views.extra_size": 16, "views.extra": 0}),
        ("vgg6", 32, {"views.extra_size": 16, "instance.learner": "none"}),
        ("vgg6", 32, {"views.extra_size": 16, "instance.learner": "simclr"}),
        ("tiny", 8, {"views.extra_size": 4}),
        ("resnet18", 32, {"views.domain": "natural"}),
    ],
)
def test_views_that_the_network_can_take_are_taken(network, size, changes):
    settings = resolve_settings("apl", "apl-digits", changes | {"network": network})
    get_method("apl")(settings).check((1, size, size))
