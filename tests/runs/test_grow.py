import csv
import json
import os
import shutil
import signal
import sys
from pathlib import Path

import numpy as np
import pretrained_package
import pytest
import torch
import yaml
from PIL import Image
from safetensors.numpy import load_file, save_file
from safetensors.torch import save

import newfound
from newfound import UserError
from newfound.cli import main as cli
from newfound.config.mapping import to_mapping
from newfound.data.collection import Skipped
from newfound.data.grown import Known
from newfound.data.remembered import RememberedStore
from newfound.data.sources import Source
from newfound.data.store import ImageStore
from newfound.errors import Interrupted
from newfound.methods import get_method
from newfound.methods.kmeans import KMeans
from newfound.methods.parts.supervised import Supervised
from newfound.model import load_model
from newfound.nets import efficientnet
from newfound.ours import mark
from newfound.plan.call import Call
from newfound.plan.recipe import resolve_settings
from newfound.progress import Reporter
from newfound.runs.again import report
from newfound.runs.assess import assess
from newfound.runs.counting import left_out
from newfound.runs.known import continued
from newfound.runs.remember import recall

COLOURS = {
    "red": (200, 40, 40), "blue": (40, 40, 200), "green": (40, 200, 40), "white": (220,) * 3,
    "black": (30,) * 3, "yellow": (220, 220, 40),
}  # fmt: skip
QUICK = {"network": "tiny", "data.size": 16, "stage1.epochs": 2, "stage1.batch": 8}
EACH = 6


def paint(folder, *names, each=EACH, seed=0):
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        rng = np.random.default_rng([seed, list(COLOURS).index(name)])
        for i in range(each):
            pixels = np.clip(rng.normal(COLOURS[name], 25, (16, 16, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / f"{name}{i}.png")


def make_images(root):
    """Red and blue known, green and white in the pile, black and yellow later."""
    paint(root / "known" / "red", "red")
    paint(root / "known" / "blue", "blue")
    paint(root / "pile", "green", "white")
    paint(root / "later", "black", "yellow")


def begin(root, **options):
    options = {"method": "kmeans", "settings": QUICK, "threads": 1, "device": "cpu", "verbose": False} | options
    return newfound.discover(root / "known", root / "pile", n_novel=2, **{"out": root / "run"} | options)


def go_on(root, run="run", out="run2", **options):
    options = {"n_novel": 2, "threads": 1, "device": "cpu", "verbose": False} | options
    return newfound.grow(root / run, options.pop("later", root / "later"), out=root / out, **options)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    root = tmp_path_factory.mktemp("finished")
    make_images(root)
    begin(root, cache=root / "cache")
    return root


@pytest.fixture
def root(finished, tmp_path):
    """Images and a finished run of a test's own: what the run says of places leads here."""
    for name in ("known", "pile", "later", "run"):
        shutil.copytree(finished / name, tmp_path / name)
    settings = tmp_path / "run" / "settings.yaml"
    content = yaml.safe_load(settings.read_text().replace(str(finished), str(tmp_path)))
    settings.write_text(yaml.safe_dump(content | {"mark": mark(content["call"])}))
    return tmp_path


def known_of(run):
    """The labels of the images that the run was given as known, by their paths."""
    known = Known.load(Path(run) / "known.json")
    return dict(zip(known.paths, known.labels, strict=True))


def found_in(root, name="run"):
    with open(root / name / "assignments.csv", newline="") as file:
        return {row["image"]: row["category"] for row in csv.DictReader(file)}


def same_result(one, other):
    theirs = load_model(other.folder / "model").state_dict()
    equal = all(
        torch.equal(value, theirs[name]) for name, value in load_model(one.folder / "model").state_dict().items()
    )
    return equal and (one.images, one.categories, one.confidence) == (other.images, other.categories, other.confidence)


# What counts as known, and what it is called


def test_what_was_found_counts_as_labelled_and_new_names_continue_the_numbering(root):
    found = go_on(root)
    assert found.result["known"] == ["blue", "novel-01", "novel-02", "red"]
    assert found.result["novel"] == ["novel-03", "novel-04"]
    assert sorted(found.images) == sorted(os.listdir(root / "later"))
    expected = {str(root / "pile" / image): category for image, category in found_in(root).items()}
    expected |= {str(path): path.parent.name for path in (root / "known").glob("*/*.png")}
    assert known_of(root / "run2") == expected
    assert found.result["images"]["labelled"] == 4 * EACH
    assert load_model(root / "run2" / "model").classes == (
        "blue",
        "novel-01",
        "novel-02",
        "red",
        "novel-03",
        "novel-04",
    )


def test_later_images_of_known_and_of_found_categories_go_back_to_them(root):
    paint(root / "later", "red", "green", seed=1)
    greens = [category for image, category in found_in(root).items() if image.startswith("green")]
    green = max(set(greens), key=greens.count)
    go_on(root, mixed=True)
    found = found_in(root, "run2")
    assert {found[f"red{i}.png"] for i in range(EACH)} == {"red"}
    assert {found[f"green{i}.png"] for i in range(EACH)} == {green}
    assert {found[f"{name}{i}.png"] for name in ("black", "yellow") for i in range(EACH)} == {"novel-03", "novel-04"}
    go_on(root, out="without")
    assert set(found_in(root, "without").values()) == {"novel-03", "novel-04"}


def test_in_a_mixed_pile_k_means_takes_the_place_of_spectral_clustering_and_settings_say_so(root, tmp_path):
    begin(root, out=tmp_path / "curves", settings=QUICK | {"cluster.algorithm": "spectral"})
    found = go_on(root, run="curves", mixed=True)
    assert newfound.runfolder.Run.open(found.folder).settings.cluster.algorithm == "kmeans"
    told = {choice["what"]: choice for choice in found.result["auto"]}["clustering"]
    assert (told["value"], told["why"]) == ("kmeans", "in a mixed pile it takes the place of spectral clustering")
    without = go_on(root, run="curves", out="without")
    assert newfound.runfolder.Run.open(without.folder).settings.cluster.algorithm == "spectral"


def test_a_method_that_takes_no_mixed_pile_refuses_one(root, tmp_path):
    begin(root, out=tmp_path / "simclr", method="simclr", settings=QUICK | {"simclr.hidden": 32})
    with pytest.raises(UserError, match="mixed: simclr finds novel categories alone"):
        go_on(root, run="simclr", mixed=True)


def test_a_network_that_is_trained_goes_on_from_the_one_of_the_run(root, monkeypatch):
    began = []
    real = Supervised.before_epoch

    def look(stage, epoch, engine):
        began.extend([next(stage.encoder.net.parameters()).detach().clone()] if epoch == 0 else [])
        return real(stage, epoch, engine)

    monkeypatch.setattr(Supervised, "before_epoch", look)
    go_on(root)
    assert torch.equal(began[0], next(load_model(root / "run" / "model").encoder.net.parameters()))


def test_a_grown_run_is_grown_again_reported_exported_judged_and_predicts(root):
    go_on(root, n_novel=1)
    paint(root / "third", "white", seed=5)
    found = go_on(root, run="run2", out="run3", later=root / "third", n_novel=1)
    assert found.result["known"] == ["blue", "novel-01", "novel-02", "novel-03", "red"]
    assert found.result["novel"] == ["novel-04"]
    assert len(known_of(root / "run3")) == 6 * EACH
    assert report(root / "run3", device="cpu", reporter=Reporter(quiet=True)).exists()
    assert found.export(root / "sorted") == {"novel-04": EACH}
    (root / "truth.csv").write_text("image,label\n" + "".join(f"white{i}.png,white\n" for i in range(EACH)))
    figures = assess(root / "run3", root / "truth.csv", device="cpu", reporter=Reporter(quiet=True))
    assert figures["unlabelled"]["accuracy"] == 1
    said = newfound.load(root / "run3").predict([root / "known" / "red" / "red0.png"])
    assert said[0] in ("blue", "red", *(f"novel-0{i}" for i in range(1, 5)))


@pytest.mark.parametrize(
    ("first", "names"),
    [
        ("novel-04", ("novel-04", "novel-05")),
        ("novel-99", ("novel-99", "novel-100")),
        ("a-9-007", ("a-9-007", "a-9-008")),
    ],
)
def test_names_continue_from_the_first(first, names):
    assert continued(first, 2) == names


def test_a_number_is_not_given_again_when_its_category_has_got_a_name(root):
    newfound.Discovery.of(newfound.runfolder.Run.open(root / "run")).export(root / "sorted")
    (root / "sorted" / "novel-02").rename(root / "sorted" / "meadow")
    found = go_on(root, corrected=root / "sorted")
    assert found.result["known"] == ["blue", "meadow", "novel-01", "red"]
    assert found.result["novel"] == ["novel-03", "novel-04"], "novel-02 was something else"


def test_a_number_that_a_person_took_is_not_given_again(root):
    newfound.Discovery.of(newfound.runfolder.Run.open(root / "run")).export(root / "sorted")
    (root / "sorted" / "novel-02").rename(root / "sorted" / "novel-07")
    assert go_on(root, corrected=root / "sorted").result["novel"] == ["novel-08", "novel-09"]


# Corrections


def test_images_that_a_person_moved_have_the_category_of_their_new_folder(root):
    found = newfound.Discovery.of(newfound.runfolder.Run.open(root / "run"))
    found.export(root / "sorted", link="symlink")
    sorted_ = root / "sorted"
    one, other = (sorted(path.name for path in (sorted_ / name).iterdir()) for name in ("novel-01", "novel-02"))
    (sorted_ / "_doubtful").mkdir()
    (sorted_ / "red").mkdir()
    (sorted_ / "novel-01" / one[0]).rename(sorted_ / "_doubtful" / one[0])
    (sorted_ / "novel-01" / one[1]).rename(sorted_ / "red" / one[1])
    for name in other:
        (sorted_ / "novel-02" / name).rename(sorted_ / "novel-01" / name)
    grown = go_on(root, corrected=sorted_)
    assert grown.result["known"] == ["blue", "novel-01", "red"], "an emptied folder is no category"
    labels = {Path(path).name: label for path, label in known_of(root / "run2").items()}
    assert one[0] not in labels
    assert labels[one[1]] == "red"
    assert {labels[name] for name in [*one[2:], *other]} == {"novel-01"}
    assert "1 of the pile are left out" in grown.result["auto"][0]["why"]


def test_a_category_that_was_deleted_is_looked_for_again_in_the_same_pile(root):
    found = newfound.Discovery.of(newfound.runfolder.Run.open(root / "run"))
    found.export(root / "sorted")
    shutil.rmtree(root / "sorted" / "novel-02")
    grown = go_on(root, corrected=root / "sorted", later=root / "pile", n_novel=2)
    assert set(grown.images) == set(found.images_of("novel-02"))
    assert grown.result["known"] == ["blue", "novel-01", "red"]
    assert grown.result["novel"] == ["novel-03", "novel-04"]


@pytest.mark.parametrize("table", [False, True])
def test_names_that_differ_in_capital_letters_or_spaces_alone_are_warned_of(root, capsys, table):
    found = newfound.Discovery.of(newfound.runfolder.Run.open(root / "run"))
    if table:
        rows = [f"{name},Red\n" for name in found.images_of("novel-01")]
        (root / "sorted").write_text("".join(["image,label\n", *rows]))
    else:
        found.export(root / "sorted")
        (root / "sorted" / "novel-01").rename(root / "sorted" / " Red")
    capsys.readouterr()
    go_on(root, corrected=root / "sorted")
    name = "'Red'" if table else "' Red'"
    assert f"capital letters or spaces alone, such as 'red' and {name}: they count as diff" in capsys.readouterr().err


def test_a_folder_that_export_had_to_rename_is_the_category_that_it_was_made_of(root):
    for name in ("result.json", "assignments.csv"):
        path = root / "run" / name
        path.write_text(path.read_text().replace("novel-01", "a: b/c"))
    newfound.Discovery.of(newfound.runfolder.Run.open(root / "run")).export(root / "sorted")
    assert not (root / "sorted" / "a: b").exists()
    assert "a: b/c" in go_on(root, corrected=root / "sorted").result["known"]


def test_a_moved_folder_that_never_had_an_image_of_the_run_is_refused(root):
    with pytest.raises(UserError, match=r"moved /typo=…: no image of .* was in /typo"):
        go_on(root, moved={"/typo": str(root / "known")})


def test_a_table_corrects_the_images_that_it_lists(root):
    images = sorted(found_in(root))
    (root / "my.csv").write_text(f"image,label\n./{images[0]},meadow\n{images[1]},\n")
    go_on(root, corrected=root / "my.csv")
    labels = {Path(path).name: label for path, label in known_of(root / "run2").items()}
    assert labels[images[0]] == "meadow"
    assert images[1] not in labels
    assert {name: labels[name] for name in images[2:]} == {name: found_in(root)[name] for name in images[2:]}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("image,label\nstranger.png,meadow\n", r"line 2: 'stranger.png' is no image of the pile"),
        ("image,label\n", "lists no image"),
        ("picture,name\na,b\n", "expected the header image,label"),
    ],
)
def test_a_table_that_corrects_nothing_is_refused(root, text, sentence):
    (root / "my.csv").write_text(text)
    with pytest.raises(UserError, match=sentence):
        go_on(root, corrected=root / "my.csv")
    assert not (root / "run2").exists()


def test_corrections_that_are_not_there_are_missed(root):
    with pytest.raises(UserError, match=r"corrected .*nowhere: there is no such folder of categories or table"):
        go_on(root, corrected=root / "nowhere")


def test_a_labelled_file_that_cannot_be_read_is_left_out_as_in_discover(root):
    (root / "known" / "red" / "broken.png").symlink_to(root / "nowhere.png")
    (root / "known" / "red" / "notes.txt").write_text("red things")
    assert go_on(root).result["images"] == {"labelled": 4 * EACH, "unlabelled": 2 * EACH, "test": 0, "skipped": 2}


# Images that are gone


@pytest.mark.parametrize("method", ["apl-features", "kmeans"])
def test_a_frozen_network_is_grown_without_the_images_to_the_same_result(method, tmp_path, monkeypatch):
    pretrained_package.install(tmp_path / "site", monkeypatch)
    monkeypatch.setattr("newfound.trust.rehearsal.rehearse", lambda *_: None)  # takes long, and is not what is tested
    monkeypatch.setattr("newfound.trust.gauges.gauge", lambda *_: {})
    short = {"stage2.epochs": 1} if method == "apl-features" else {}
    options = {"method": method, "settings": short, "backbone": pretrained_package.NAME}
    make_images(tmp_path)
    begin(tmp_path, **options)
    whole = go_on(tmp_path)
    shutil.rmtree(tmp_path / "known")
    shutil.rmtree(tmp_path / "pile")
    shutil.rmtree(tmp_path / "user-cache")  # the features are in the run
    alone = go_on(tmp_path, out="alone")
    assert same_result(whole, alone)
    assert "24 of the 24 images" in alone.result["warnings"][0]
    assert "--calibrate" in alone.result["warnings"][0]
    shutil.rmtree(tmp_path / "later")
    paint(tmp_path / "third", "red", seed=7)
    again = go_on(tmp_path, run="alone", out="again", later=tmp_path / "third", n_novel=1)
    assert again.result["images"]["labelled"] == 6 * EACH, "a grown run keeps what it was given"

    tensors = load_file(tmp_path / "run" / "features.safetensors")
    assert tensors["features"].shape == (24, 1280)
    for name, damage in (("features", lambda x: x[:, :9]), ("digests", lambda x: x[1:]), ("labels", lambda x: x + 9)):
        changed = {key: np.ascontiguousarray(value) for key, value in (tensors | {name: damage(tensors[name])}).items()}
        save_file(changed, tmp_path / "run" / "features.safetensors")
        with pytest.raises(UserError, match=r"does not hold the features of this run's images"):
            go_on(tmp_path, out="damaged")
    (tmp_path / "run" / "features.safetensors").unlink()
    with pytest.raises(UserError, match=r"labelled images of .* are not in .*known any more: .* with moved "):
        go_on(tmp_path, out="damaged")
    assert not (tmp_path / "damaged").exists()


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float8_e4m3fn, torch.uint16])
def test_kept_features_of_other_types_are_refused_in_a_sentence(tmp_path, kind):
    tensors = {"digests": torch.zeros(2, 16, dtype=torch.uint8), "features": torch.zeros(2, 8, dtype=kind)}
    (tmp_path / "known.safetensors").write_bytes(save(tensors))
    source = Source(unlabelled="later", n_novel=1, known=str(tmp_path / "known.json"), next_name="novel-03")
    call = Call(source, 0, "cpu", 1, str(tmp_path))
    with pytest.raises(UserError, match=r"known.safetensors does not hold the features of images that are gone"):
        recall(call, KMeans(KMeans.Settings()), (3, 8, 8), Reporter(quiet=True))


def test_a_network_that_is_trained_needs_the_images_wherever_they_are_now(root):
    (root / "known").rename(root / "known-elsewhere")
    with pytest.raises(UserError, match=r"are not in .*known any more: if the folder has moved, say where it is"):
        go_on(root)
    (root / "pile").rename(root / "pile-elsewhere")
    moved = {str(root / "known"): str(root / "known-elsewhere")}
    with pytest.raises(UserError, match=r"12 of the 24 images .* kmeans trains a network, which needs them"):
        go_on(root, moved=moved)
    assert not (root / "run2").exists()
    found = go_on(root, moved=moved | {str(root / "pile"): str(root / "pile-elsewhere")})
    assert found.result["images"]["labelled"] == 4 * EACH
    with pytest.raises(UserError, match=r"moved .*nowhere is not a folder"):
        go_on(root, out="run3", moved={str(root / "known"): str(root / "nowhere")})


def test_pixels_of_an_image_that_is_gone_are_refused_and_its_digest_is_not():
    there = ImageStore(np.arange(2 * 3 * 4 * 4, dtype=np.uint8).reshape(2, 3, 4, 4))
    gone = np.full((1, 16), 7, np.uint8)
    store = RememberedStore.beside(there, gone).take(np.array([2, 1, 0]))
    assert (len(store), store.shape) == (3, (3, 4, 4))
    assert np.array_equal(store.digests(), np.concatenate([gone, there.digests()[::-1]]))
    assert torch.equal(store.batch(torch.tensor([1, 2])), there.images.flip(0))
    with pytest.raises(UserError, match="images of an earlier run are gone"):
        store.batch(torch.tensor([0]))


# Resuming


def test_a_killed_grown_run_resumes_bit_for_bit_without_the_first_run(root, monkeypatch):
    whole = go_on(root, out="whole")
    real = Supervised.step

    def stopping(self, batch, t):
        if int(t) == 3:
            os.kill(os.getpid(), signal.SIGTERM)
        return real(self, batch, t)

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with monkeypatch.context() as patch:
        patch.setattr(Supervised, "step", stopping)
        with pytest.raises(Interrupted, match="newfound resume"):
            go_on(root)
    shutil.rmtree(root / "run")
    resumed = newfound.resume(root / "run2", verbose=False)
    assert same_result(whole, resumed)
    assert (root / "whole" / "metrics.jsonl").read_bytes() == (root / "run2" / "metrics.jsonl").read_bytes()


# Bad input


def called(words, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["newfound", *map(str, words), "--quiet"])
    return cli.status(), *capsys.readouterr()


def test_the_command_says_what_was_found(root, monkeypatch, capsys):
    (root / "pile").rename(root / "elsewhere")
    words = ["grow", root / "run", "--unlabelled", root / "later", "--novel", 2, "--out", root / "run2"]
    status, _, errors = called(words, monkeypatch, capsys)
    assert (status, errors.count("\n")) == (2, 1)
    assert "--moved OLD=NEW" in errors
    status, out, _ = called([*words, "--moved", f"{root / 'pile'}={root / 'elsewhere'}"], monkeypatch, capsys)
    assert status == 0
    assert out.startswith("novel-03  ")
    status, _, errors = called([*words[:-1], root / "run3", "--moved", "here"], monkeypatch, capsys)
    assert (status, errors) == (2, "newfound: --moved here: write it as OLD=NEW, two folders\n")


def test_a_discovery_grows(root):
    found = newfound.Discovery.of(newfound.runfolder.Run.open(root / "run"))
    grown = found.grow(root / "later", n_novel=2, out=root / "run2", threads=1, device="cpu", verbose=False)
    assert grown.result["novel"] == ["novel-03", "novel-04"]


def test_a_run_that_is_not_finished_is_resumed_first(root):
    (root / "run" / "result.json").unlink()
    with pytest.raises(UserError, match=r"run is not finished: newfound resume"):
        go_on(root)


@pytest.mark.parametrize("source", ["dataset: digits", "features: x.npy"])
def test_runs_of_data_sets_and_of_features_are_refused(root, source):
    path, name = root / "run" / "settings.yaml", source.partition(":")[0]
    lines = []
    for line in path.read_text().splitlines():
        key = line.strip().partition(":")[0]
        dropped = (
            key in ("labelled", "unlabelled", "n_novel") if name == "dataset" else key in ("labelled", "unlabelled")
        )
        line = f"    {key}: null" if dropped and line.startswith("    ") and "n_novel" not in line else line
        line = "    n_novel: null" if dropped and "n_novel" in line else line
        line = f"    {source}" if key == name and line.startswith("    ") else line
        line = "    labels: y.csv" if name == "features" and key == "labels" and line.startswith("    ") else line
        lines.append(line)
    path.write_text("\n".join(lines))
    sentence = "data set digits, whose pile is all there is" if name == "dataset" else "was made of features"
    with pytest.raises(UserError, match=sentence):
        go_on(root)


def test_a_run_whose_settings_are_of_another_method_is_refused(root):
    path = root / "run" / "settings.yaml"
    content = yaml.safe_load(path.read_text())
    other = to_mapping(resolve_settings("simclr", "simclr-folder", {"network": "tiny", "data.size": 16}))
    path.write_text(yaml.safe_dump(content | {"settings": other}))
    with pytest.raises(UserError, match=r"settings of the run .* are of simclr, and its model was made by kmeans"):
        go_on(root)
    assert not (root / "run2").exists()
    path.write_text(yaml.safe_dump(content | {"settings": content["settings"] | {"method": "simclr"}}))
    with pytest.raises(UserError, match=r"settings.yaml: there is no setting|settings of the run"):
        go_on(root)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"network": "vgg6"}, "have network=vgg6, and its model was made with network=tiny: "),
        ({"data": {"size": 32}}, "have data.size=32, and its model was made with data.size=16: "),
    ],
)
def test_a_run_whose_settings_are_of_another_network_is_refused_before_a_folder_is_made(
    root, monkeypatch, change, sentence
):
    path = root / "run" / "settings.yaml"
    content = yaml.safe_load(path.read_text())
    path.write_text(yaml.safe_dump(content | {"settings": content["settings"] | change}))
    monkeypatch.setattr("newfound.runs.grow.claimed", None)
    with pytest.raises(UserError, match=f"settings of the run .* {sentence}one of them was changed"):
        go_on(root)
    assert not (root / "run2").exists()


@pytest.mark.parametrize("method", ["apl", "apl-plus"])
def test_a_method_that_projects_features_says_so_of_its_encoder(method):
    settings = resolve_settings(method, f"{method}-digits", {"dimension": 24})
    assert get_method(method)(settings).encoder_settings() == {"network": "tiny", "data.size": 8, "dimension": 24}


@pytest.mark.parametrize(
    ("name", "damage", "sentence"),
    [
        ("model/model.safetensors", lambda raw: raw[:-5] + bytes([raw[-5] ^ 1]) + raw[-4:], "its checksum differs"),
        ("model/model.safetensors", lambda raw: raw[:40], "does not hold the weights of this model"),
        ("result.json", lambda raw: b"{}", "does not name the known and the novel categories"),
        ("assignments.csv", lambda raw: raw.splitlines(True)[0], "has 0 lines, and the run had 12 images"),
    ],
    ids=["a flipped bit", "cut off", "no result", "no assignments"],
)
def test_a_run_that_was_tampered_with_is_refused_before_anything_is_written(root, name, damage, sentence):
    path = root / "run" / name
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(UserError, match=sentence):
        go_on(root)
    assert not (root / "run2").exists()


@pytest.mark.parametrize("image", ["../outside.png", "/etc/passwd", "a/../../b.png"])
def test_a_run_that_names_images_outside_its_pile_is_refused(root, image):
    table = root / "run" / "assignments.csv"
    table.write_text(table.read_text().replace("green0.png", image))
    with pytest.raises(UserError, match="which is not in the run's pile"):
        go_on(root)


def test_a_run_that_names_a_category_it_has_not_is_refused(root):
    table = root / "run" / "assignments.csv"
    table.write_text(table.read_text().replace("novel-01", "novel-77"))
    with pytest.raises(UserError, match="names the category 'novel-77', which the run has not"):
        go_on(root)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"images": ["a"]}, "do not fit together"),
        ({"digests": ["zz"]}, "does not list"),
        ({"labels": [1]}, "what is no text"),
    ],
)
def test_a_list_of_known_images_that_was_changed_is_refused(root, change, sentence):
    go_on(root, n_novel=1)
    path = root / "run2" / "known.json"
    content = json.loads(path.read_text())
    content = {name: change[name] + content[name][1:] * (name != "images") for name in change} | {
        name: value for name, value in content.items() if name not in change
    }
    path.write_text(json.dumps(content))
    with pytest.raises(UserError, match=sentence):
        go_on(root, run="run2", out="run3")


def test_images_of_before_are_left_out_of_the_later_pile_and_told(root):
    shutil.copy(root / "pile" / "green0.png", root / "later" / "again.png")
    shutil.copy(root / "known" / "red" / "red0.png", root / "later" / "old.png")
    found = go_on(root)
    assert len(found) == 2 * EACH
    with open(root / "run2" / "skipped.csv", newline="") as file:
        told = {Path(row["file"]).name: row["reason"] for row in csv.DictReader(file)}
    assert told.keys() == {"again.png", "old.png"}
    assert str(root / "pile" / "green0.png") in told["again.png"]


def test_the_same_pile_again_has_nothing_to_discover(root):
    with pytest.raises(UserError, match="all 12 unlabelled images are among the labelled ones too"):
        go_on(root, later=root / "pile")
    assert not (root / "run2").exists(), "nothing is left of a run that did not begin"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"out": "later/run"}, "lies inside unlabelled"),
        ({"out": "pile/run"}, "lies inside the pile"),
        ({"out": "run/run"}, "lies inside the run"),
        ({"n_novel": 0}, "n_novel 0: there has to be at least one"),
        ({"n_novel": 13}, "cannot find 13 novel categories among the 12 unlabelled images"),
        ({"n_novel": 1.5}, "has to be a whole number"),
        ({"later": Path("/nowhere")}, "the folder of unlabelled images, '/nowhere', does not exist"),
    ],
)
def test_a_call_that_cannot_be_right_is_a_sentence(root, options, sentence):
    with pytest.raises(UserError, match=sentence):
        go_on(root, **options)
    assert not (root / "run2").exists()


def test_a_run_folder_in_use_stays_as_it_is(root):
    before = {path: path.read_bytes() for path in (root / "run").rglob("*") if path.is_file()}
    with pytest.raises(UserError, match=r"holds a run already|lies inside"):
        go_on(root, out="run")
    assert {path: path.read_bytes() for path in (root / "run").rglob("*") if path.is_file()} == before


# How many further categories


@pytest.fixture
def frozen(tmp_path, monkeypatch):
    """A finished run of a pretrained network, whose later pile has ten images of two colours each."""
    pretrained_package.install(tmp_path / "site", monkeypatch)
    monkeypatch.setitem(efficientnet.SCALES, 0, (1.0, 1.0, 32))
    monkeypatch.setattr("newfound.trust.rehearsal.rehearse", lambda *_: None)
    monkeypatch.setattr("newfound.trust.gauges.gauge", lambda *_: {})
    make_images(tmp_path)
    paint(tmp_path / "later", "black", "yellow", each=10)
    begin(tmp_path, method="auto", settings={"stage2.epochs": 1}, backbone=pretrained_package.NAME)
    return tmp_path


def test_auto_estimates_as_count_does_with_what_was_found_as_known(frozen):
    found = go_on(frozen, n_novel="auto")
    newfound.Discovery.of(newfound.runfolder.Run.open(frozen / "run")).export(frozen / "all")
    shutil.copytree(frozen / "known", frozen / "all", dirs_exist_ok=True)
    expected = newfound.count_novel(frozen / "all", frozen / "later", device="cpu", verbose=False)
    assert len(found.result["novel"]) == expected.estimate
    assert found.result["counted"]["estimate"] == expected.estimate
    assert found.result["counted"]["images"] == [4 * EACH, 20]
    assert [choice["what"] for choice in found.result["auto"]] == ["novel", "labelled images"]
    resumed = newfound.resume(frozen / "run2", verbose=False)
    assert same_result(found, resumed)


@pytest.mark.parametrize("call", ["grow", "discover", "count"])
def test_what_is_wrong_with_images_is_told_once_though_they_are_read_twice(frozen, capsys, call):
    later = frozen / "later"
    shutil.copy(frozen / "known" / "red" / "red0.png", later / "old.png")
    shutil.copy(later / "black0.png", later / "copy.png")
    (later / "notes.txt").write_text("no image")
    capsys.readouterr()
    if call == "grow":
        go_on(frozen, n_novel="auto")
    elif call == "discover":
        settings = {"stage2.epochs": 1}
        options = {"n_novel": "auto", "out": frozen / "other", "settings": settings, "device": "cpu", "threads": 1}
        newfound.discover(frozen / "known", later, **options, backbone=pretrained_package.NAME)
    else:
        newfound.count_novel(frozen / "known", later, device="cpu", verbose=True)
    said = capsys.readouterr().err
    assert said.count("is among the labelled ones too") == said.count("a copy of another one") == 1
    assert "skipped.csv" not in said
    left_out = f"'{later}/notes.txt' (not an image, or damaged at its start, or of an unknown format) and '{later}/old"
    assert (f"2 files were left out: {left_out}" in said) == (call == "count")


def test_files_that_are_left_out_of_a_count_are_told_with_some_reasons():
    skipped = [Skipped("a", "odd"), Skipped("b", "odd"), Skipped("c", "strange"), Skipped("d", "old")]
    assert left_out(skipped, "row") == "4 rows were left out, such as 'a' (odd) and 'c' (strange)"
    assert left_out(skipped[:1], "file") == "1 file was left out: 'a' (odd)"


def test_auto_estimates_the_same_where_images_are_gone(frozen):
    whole = go_on(frozen, n_novel="auto")
    for name in ("known", "pile", "user-cache"):
        shutil.rmtree(frozen / name)
    alone = go_on(frozen, n_novel="auto", out="alone")
    assert alone.result["counted"] == whole.result["counted"]
    assert same_result(whole, alone)


def test_auto_with_a_network_of_the_run_s_own_looks_with_the_pretrained_one(root, tmp_path, monkeypatch):
    pretrained_package.install(tmp_path / "site", monkeypatch)
    monkeypatch.setitem(efficientnet.SCALES, 0, (1.0, 1.0, 32))
    found = go_on(root, n_novel="auto")
    assert found.result["counted"]["images"] == [4 * EACH, 2 * EACH]
    assert len(found.result["novel"]) == found.result["counted"]["estimate"]


def test_auto_among_five_images_stops_and_leaves_nothing(root, tmp_path, monkeypatch):
    pretrained_package.install(tmp_path / "site", monkeypatch)
    monkeypatch.setitem(efficientnet.SCALES, 0, (1.0, 1.0, 32))
    paint(root / "few", "black", each=5)
    with pytest.raises(UserError, match="the pile has 5 images, too few to estimate how many categories it has"):
        go_on(root, later=root / "few", n_novel="auto")
    assert not (root / "run2").exists()


def test_auto_among_images_of_found_categories_stops_since_nothing_is_new(frozen, monkeypatch):
    monkeypatch.setattr("newfound.count.estimate.ALL", 0.8)  # six labelled images of a category tell no more
    paint(frozen / "same", "green", "white", each=20, seed=5)
    with pytest.raises(UserError, match=r"n_novel auto: .* probably nothing new in it; .* say for how many"):
        go_on(frozen, later=frozen / "same", n_novel="auto")
    assert not (frozen / "run2").exists()


def test_auto_is_the_only_word(root):
    with pytest.raises(UserError, match="n_novel 'many': it has to be a whole number, or auto to estimate it"):
        go_on(root, n_novel="many")


# Moved runs and emptied folders


def test_a_grown_run_that_moved_is_resumed_reported_judged_and_grown_again(root):
    go_on(root, n_novel=1)
    shutil.rmtree(root / "run")
    (root / "run2").rename(root / "elsewhere")
    assert report(root / "elsewhere", device="cpu", reporter=Reporter(quiet=True)).exists()
    (root / "truth.csv").write_text("image,label\nblack0.png,black\n")
    assess(root / "elsewhere", root / "truth.csv", device="cpu", reporter=Reporter(quiet=True))
    paint(root / "third", "white", seed=5)
    found = go_on(root, run="elsewhere", out="run3", later=root / "third", n_novel=1)
    assert found.result["novel"] == ["novel-04"]


def test_an_unfinished_grown_run_that_moved_goes_on(root, monkeypatch):
    whole = go_on(root, out="whole")
    with monkeypatch.context() as patch:
        patch.setattr(Supervised, "step", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(Interrupted):
            go_on(root)
    (root / "run2").rename(root / "elsewhere")
    assert same_result(whole, newfound.resume(root / "elsewhere", verbose=False))


def test_a_folder_that_was_emptied_is_like_one_that_is_gone(frozen):
    whole = go_on(frozen)
    for path in (*(frozen / "known").rglob("*.png"), *(frozen / "pile").glob("*.png")):
        path.unlink()
    assert same_result(whole, go_on(frozen, out="alone"))
