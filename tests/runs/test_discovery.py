import csv
import dataclasses
import io
import os
import shutil

import numpy as np
import pytest
from PIL import Image

import newfound
from newfound import UserError
from newfound.cli.printing import print_discovery
from newfound.data.sources import DATASETS
from newfound.errors import Interrupted
from newfound.methods import method_names
from newfound.runfolder import Run
from newfound.runs import discovery
from newfound.tables import format_table, parse_table

QUICK = {"stage1.epochs": 2}
TINY = {"network": "tiny", "data.size": 8, "stage1.epochs": 1, "stage1.batch": 4}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return newfound.discover(
        dataset="digits", method="kmeans", out=tmp_path_factory.mktemp("api") / "run", settings=QUICK
    )


def test_a_discovery_tells_what_was_found(found):
    sizes = found.sizes()
    assert list(sizes) == [f"novel-0{i}" for i in range(1, 6)]
    assert sum(sizes.values()) == len(found) == 679
    assert list(sizes.values()) == sorted(sizes.values(), reverse=True)
    surest = found.images_of("novel-01")
    assert len(surest) == sizes["novel-01"]
    confidence = dict(zip(found.images, found.confidence, strict=True))
    assert [confidence[i] for i in surest] == sorted((confidence[i] for i in surest), reverse=True)
    with pytest.raises(UserError, match="there is no category novel-09"):
        found.images_of("novel-09")


def test_a_category_is_named_after_the_known_ones_it_is_near(found, capsys):
    assert set(found.result["near"]) == set(found.sizes())
    near = {"novel-01": ["4", "<b>"], "novel-02": ["8", 7, "6"], "novel-03": "2"}
    told = dataclasses.replace(found, result=found.result | {"near": near, "known": ["4", "6", "8", "<b>"]})
    assert told.near("novel-01") == ["4", "<b>"]
    assert told.near("novel-02") == ["8", "6"]  # what is no known category is not told
    assert told.near("novel-03") == told.near("novel-04") == []
    size = told.sizes()["novel-01"]
    assert f"<tr><td>novel-01</td><td>{size}</td><td>4, &lt;b&gt;</td></tr>" in told._repr_html_()
    print_discovery(told, as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"novel-01  {size} images  near to: 4, <b>  digits-")
    assert "near to" not in lines[2]


def test_a_category_beside_a_known_one_is_near_it(tmp_path):
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(10, 24))
    centres[8] = centres[3] + 0.3 * rng.normal(size=24)
    truth = np.repeat(np.arange(10), 20)
    np.save(tmp_path / "features.npy", (centres[truth] + 0.2 * rng.normal(size=(200, 24))).astype(np.float32))
    rows = "".join(f"{row},c{category}\n" for row, category in enumerate(truth[:160]))
    (tmp_path / "labels.csv").write_text(f"image,label\n{rows}")
    found = newfound.discover(
        features=tmp_path / "features.npy", labels=tmp_path / "labels.csv", n_novel=2, out=tmp_path / "run", time="5s"
    )
    category_of = dict(zip(found.images, found.categories, strict=True))
    assert found.near(category_of["165"])[0] == "c3"


def test_no_name_is_claimed_where_labels_trained_the_network(found):
    assert found.result["near"] == {name: [] for name in found.sizes()}


def test_it_is_one_line_in_a_terminal_and_a_table_in_a_notebook(found):
    assert repr(found) == f"Discovery({str(found.folder)!r}: 679 images in 5 categories)"
    near: dict[str, list[str]] = {name: [] for name in found.sizes()}
    shown = dataclasses.replace(found, result=found.result | {"near": near})._repr_html_()
    for name, size in found.sizes().items():
        assert f"<tr><td>{name}</td><td>{size}</td></tr>" in shown
    names = tuple(f"<{i:03d}>" for i in range(60))
    many = dataclasses.replace(found, images=names, categories=names, confidence=(1.0,) * 60, result={"novel": names})
    shown = many._repr_html_()
    assert "<td>&lt;000&gt;</td>" in shown
    assert "<000>" not in shown
    assert shown.count("<tr><td>") == 50
    assert "and 10 smaller categories" in shown


def test_it_becomes_a_frame(found):
    frame = found.to_frame()
    assert list(frame.columns) == ["image", "category", "confidence"]
    assert (frame.groupby("category").size().to_dict()) == found.sizes()


def test_a_run_gives_back_its_model_and_itself(found):
    assert newfound.load(found.folder).classes_.tolist() == [*"02468", *found.sizes()]
    assert found.model().n_novel == 5
    assert newfound.resume(found.folder) == found


def test_every_figure_is_there(found):
    result = found.result
    assert set(result["unlabelled"]) == {"accuracy", "nmi", "ari", "images", "classes"}
    assert set(result["test"]) == {"paper", "single", "strict", "task-aware"}
    assert result["seconds"]["stage1"] > 0
    assert result["versions"]["torch"]


def test_numbers_of_numpy_make_a_run_that_can_be_opened_again(folders, tmp_path):
    numbers = {"n_novel": np.int64(2), "seed": np.uint8(3), "threads": np.int32(1), "hold_out": np.float64(0.25)}
    found = newfound.discover(**folders | numbers, method="kmeans", out=tmp_path / "run")
    call = Run.open(found.folder).call
    assert (call.source.n_novel, call.seed, call.threads, call.source.hold_out) == (2, 3, 1, 0.25)
    assert Run.open(found.folder).read_result()["seed"] == 3


@pytest.mark.parametrize("value", ["a", [0.1], "0.1"])
def test_a_share_that_is_no_number_is_refused(value, folders, tmp_path):
    with pytest.raises(UserError, match=r"^hold_out .*: it has to be a number$"):
        newfound.discover(**folders, hold_out=value, out=tmp_path / "run")


@pytest.mark.parametrize("change", [{"n_novel": 2.0}, {"n_novel": "2"}, {"seed": 1.5}, {"seed": None}, {"threads": ""}])
def test_what_is_no_whole_number_is_refused(change, folders, tmp_path):
    with pytest.raises(
        UserError, match=r"^(n_novel|seed|threads) .*: it has to be a whole number(, or auto to estimate it)?$"
    ):
        newfound.discover(**folders | change, out=tmp_path / "run")


def test_every_data_set_has_a_recipe_of_every_method():
    from newfound.plan.recipe import recipe_names

    for method in method_names():
        if method not in recipe_names():  # one for all
            assert {f"{method}-{known.recipe}" for known in DATASETS.values()} <= set(recipe_names())


def picture(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(len(str(path))).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    pixels[0, 0] = np.frombuffer(os.fsencode(path)[-7:-4], np.uint8)  # no two alike
    Image.fromarray(pixels).save(path)


@pytest.fixture
def folders(tmp_path):
    """A known category whose name is not UTF-8, and a pile in which a name holds a carriage return."""
    for i in range(4):
        picture(tmp_path / "known" / os.fsdecode(b"caf\xe9") / f"{i}.png")
        picture(tmp_path / "known" / "disc" / f"{i}{i}.png")
        picture(tmp_path / "pile" / f"x\r{i}.png")
    return {"labelled": tmp_path / "known", "unlabelled": tmp_path / "pile", "n_novel": 2, "settings": TINY}


def test_names_of_any_bytes_survive_a_run(folders, tmp_path):
    found = newfound.discover(**folders, method="kmeans", out=tmp_path / "run")
    assert found.result["known"] == [os.fsdecode(b"caf\xe9"), "disc"]
    assert sorted(found.images) == [f"x\r{i}.png" for i in range(4)]
    assert newfound.resume(tmp_path / "run") == found


def test_a_table_reads_back_as_it_was_written():
    rows = [["plain.png", "a"], ["a\rb.png", "c"], ['a\r\nb,"c"\n.png', "\r"], ["", " x "]]
    rows += [["=1.png", "=1"], ["'=1.png", "'=1"], ["./=1.png", "''=1"], ["=", "'"], ["-1", "'a"], ["+\r", "./=1"]]
    text = format_table(["image", "category"], rows)
    assert [list(row.values()) for row in parse_table(io.StringIO(text, newline=""))] == rows
    assert text.startswith("image,category\nplain.png,a\n")


def test_a_spreadsheet_finds_no_formula_in_a_table():
    names = ["=1", "+1", "-1", "@a", "\t=1", "\r=1", "\n=1", "\uff1d1", "./=1", "'=1"]
    text = format_table(["image", "category"], ([name, name] for name in names))
    assert parse_table(io.StringIO(format_table(["a\rb"], [["c"]]), newline="")) == [{"a\rb": "c"}]
    cells = list(csv.reader(io.StringIO(text, newline="")))[1:]
    assert cells[0] == ["./=1", "'=1"]
    for row in cells:
        assert all(cell[0] in ".'" for cell in row)


@pytest.mark.parametrize("option", ["out", "cache"])
@pytest.mark.parametrize("role", ["labelled", "unlabelled"])
def test_nothing_is_written_among_the_images(option, role, folders, tmp_path):
    (tmp_path / "link").symlink_to(folders[role])
    for place in (folders[role], folders[role] / "new", tmp_path / "link" / "deep" / "new"):
        with pytest.raises(UserError, match=rf"^{option} .* lies inside {role} .*: choose a place outside"):
            newfound.discover(**folders, **{"out": tmp_path / "run", option: place})
    assert not (tmp_path / "run").exists()
    assert not (folders[role] / "deep").exists()
    assert not (folders[role] / "new").exists()


@pytest.mark.parametrize("place", ["run", "run/cache", "link/cache"])
def test_no_cache_is_made_in_the_run(place, folders, tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "run")
    with pytest.raises(UserError, match=r"^cache .* lies inside out .*: choose a place outside"):
        newfound.discover(**folders, method="kmeans", out=tmp_path / "run", cache=tmp_path / place)
    assert not (tmp_path / "run").exists()


@pytest.fixture
def no_reading(monkeypatch):
    def read(*_):
        raise AssertionError("images were read")

    monkeypatch.setattr(discovery, "read_call", read)


@pytest.mark.usefixtures("no_reading")
def test_a_place_that_cannot_hold_a_run_is_refused_before_images_are_read(tmp_path):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    before = sorted(tmp_path.iterdir())
    places = ["file", "file/run", "file/deep/run", "dangling", "loop", "loop/run", "x" * 300, f"new/{'x' * 300}"]
    for place in places:
        with pytest.raises(UserError, match="choose another out"):
            newfound.discover(dataset="digits", out=tmp_path / place)
        assert sorted(tmp_path.iterdir()) == before, place


@pytest.mark.usefixtures("no_reading")
def test_a_folder_that_cannot_be_written_to_is_refused_before_images_are_read(tmp_path, monkeypatch):
    import errno
    import tempfile

    def refuse(dir):
        raise OSError(errno.EROFS, "Read-only file system", str(dir))

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    with pytest.raises(UserError, match=r"^cannot write to .*/new/run: Read-only file system; choose another out"):
        newfound.discover(dataset="digits", out=tmp_path / "new" / "run")
    assert not (tmp_path / "new").exists()


def test_images_that_cannot_be_read_leave_no_folder_behind(folders, tmp_path):
    (tmp_path / "there" / "empty").mkdir(parents=True)
    wrong = folders | {"labelled": tmp_path / "nowhere"}
    for place in ("new/deep/run", "there/empty", "there/run"):
        with pytest.raises(UserError, match="does not exist"):
            newfound.discover(**wrong, out=tmp_path / place)
    assert not (tmp_path / "new").exists()
    assert [p.name for p in (tmp_path / "there").iterdir()] in ([], ["empty"])


@pytest.mark.parametrize("place", ["nowhere", "file/run", "x" * 300, "loop"])
def test_a_place_that_holds_no_run_is_refused_with_a_sentence(place, tmp_path):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(UserError, match=r"there is no run in|cannot be opened"):
        newfound.resume(tmp_path / place)


@pytest.mark.parametrize("change", [{"seed": -1}, {"seed": 2**31}, {"threads": -1}, {"threads": 1025}])
def test_numbers_out_of_range_are_refused_before_a_folder_is_made(change, tmp_path):
    with pytest.raises(UserError, match=f"{next(iter(change))} .*: it has to be from 0 to"):
        newfound.discover(dataset="digits", out=tmp_path / "run", **change)
    assert not (tmp_path / "run").exists()


def broken(name, content):
    def damage(run):
        path = run / name
        path.unlink(missing_ok=True)
        path.mkdir() if content is None else path.write_text(content)

    return damage


def sure_of_nothing(run):
    path = run / "assignments.csv"
    path.write_text(path.read_text().replace(",0.", ",c"))


def other_format(run):
    path = run / "settings.yaml"
    path.write_text(path.read_text().replace("format: 2", "format: abc"))


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (broken("settings.yaml", None), "settings.yaml: Is a directory"),
        (other_format, "does not describe a run"),
        (broken("settings.yaml", "format: 2"), "does not describe a run"),
        (broken("result.json", "[]"), "result.json cannot be read"),
        (broken("result.json", "{"), "result.json cannot be read"),
        (broken("assignments.csv", None), "assignments.csv cannot be read: Is a directory"),
        (broken("assignments.csv", "image,category\na,b\n"), "has a line without"),
        (sure_of_nothing, "assignments.csv cannot be read"),
    ],
)
def test_a_damaged_run_is_refused_with_a_sentence(damage, complaint, found, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(found.folder, run)
    damage(run)
    with pytest.raises(UserError, match=complaint):
        newfound.resume(run)


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (broken(".lock", None), "cannot write to the run .*Is a directory"),
        (broken("collection.json", None), "collection.json cannot be read: Is a directory"),
        (broken("collection.json", "[]"), "collection.json cannot be read"),
    ],
)
def test_a_damaged_run_that_is_not_finished_is_refused_with_a_sentence(damage, complaint, found, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(found.folder, run)
    (run / "result.json").unlink()
    damage(run)
    with pytest.raises(UserError, match=complaint):
        newfound.resume(run)


def interrupt(*_, **__):
    raise KeyboardInterrupt


def test_an_interruption_while_images_are_read_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(discovery, "read_call", interrupt)
    with pytest.raises(Interrupted, match="interrupted before the run began; call again"):
        newfound.discover(dataset="digits", out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("place", ["newfound.cluster.chosen.kmeans", "newfound.engine.loop.read_features"])
def test_an_interruption_outside_training_names_resume_which_goes_on(place, tmp_path, monkeypatch):
    run = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(place, interrupt)
        with pytest.raises(Interrupted, match=f"^interrupted; go on with `newfound resume {run}`$"):
            newfound.discover(dataset="digits", method="kmeans", out=run, settings=QUICK)
    with monkeypatch.context() as patch:
        patch.setattr(discovery, "read_call", interrupt)
        with pytest.raises(Interrupted, match=f"^interrupted; go on with `newfound resume {run}`$"):
            newfound.resume(run)
    assert len(newfound.resume(run)) == 679


def test_a_run_goes_on_on_another_device_and_says_what_that_costs(found, tmp_path, capsys):
    run = tmp_path / "run"
    shutil.copytree(found.folder, run)
    (run / "result.json").unlink()
    assert Run.open(run).call.device in ("cpu", "cuda")
    text = (run / "settings.yaml").read_text()
    (run / "settings.yaml").write_text(
        text.replace("device: cpu", "device: cuda:99").replace("device: cuda\n", "device: cuda:99\n")
    )
    with pytest.raises(UserError, match="device cuda:99"):
        newfound.resume(run)
    again = newfound.resume(run, device="cpu", verbose=True)
    assert again.categories == found.categories
    assert "began on cuda:99 and goes on on cpu: the result is no longer bit for bit" in capsys.readouterr().err


def test_a_run_that_goes_on_on_its_own_device_says_nothing_of_it(found, tmp_path, capsys):
    run = tmp_path / "run"
    shutil.copytree(found.folder, run)
    (run / "result.json").unlink()
    newfound.resume(run, device=Run.open(run).call.device, verbose=True)
    assert "bit for bit" not in capsys.readouterr().err
