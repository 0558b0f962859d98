import errno
import io
import json
import resource
import subprocess
import sys
import time

import numpy as np
import pytest
from PIL import Image

from newfound.cli import main as cli
from newfound.errors import Diverged
from newfound.progress import Reporter
from newfound.runs.assess import assess

QUICK = ["--method", "kmeans", "--set", "stage1.epochs=2"]


def newfound(*words, cwd=None):
    command = [sys.executable, "-m", "newfound", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd)


def called(words, monkeypatch, capsys):
    """The exit status, standard output and standard error of a command, run in this process without progress."""
    monkeypatch.setattr(sys, "argv", ["newfound", *map(str, words), "--quiet"])
    return cli.status(), *capsys.readouterr()


@pytest.fixture(scope="module")
def quiet(tmp_path_factory):
    """A run with --quiet, and what its process said."""
    run = tmp_path_factory.mktemp("finished") / "run"
    return run, newfound("discover", "--dataset", "digits", *QUICK, "--out", run, "--quiet")


@pytest.fixture
def finished(quiet):
    run, done = quiet
    assert done.returncode == 0, done.stderr
    return run


@pytest.fixture
def folders(tmp_path):
    """Squares and discs are known; the pile holds horizontal and vertical stripes."""
    rng = np.random.default_rng(0)

    def picture(kind):
        y, x = np.mgrid[:24, :24]
        shape = {
            "square": (abs(x - 12) < 7) & (abs(y - 12) < 7),
            "disc": (x - 12) ** 2 + (y - 12) ** 2 < 60,
            "rows": y // 3 % 2 == 0,
            "columns": x // 3 % 2 == 0,
        }[kind]
        grey = np.where(shape, 220, 30) + rng.normal(0, 12, shape.shape)
        return Image.fromarray(grey.clip(0, 255).astype(np.uint8))

    for kind in ("square", "disc"):
        (tmp_path / "known" / kind).mkdir(parents=True)
        for i in range(12):
            picture(kind).save(tmp_path / "known" / kind / f"{i}.png")
    (tmp_path / "pile").mkdir()
    for i in range(24):
        picture("rows" if i % 2 else "columns").save(tmp_path / "pile" / f"{i:02d}.png")
    (tmp_path / "pile" / "notes.txt").write_text("not an image")
    return tmp_path


def test_help_takes_less_than_half_a_second():
    times = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert newfound("--help").returncode == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(times) < 0.5, times  # of the processor: others may use it too


def test_importing_newfound_imports_no_torch():
    code = "import sys, newfound; assert 'torch' not in sys.modules and 'sklearn' not in sys.modules; newfound.discover"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_folder_becomes_categories_in_one_command(folders, monkeypatch, capsys):
    out = folders / "run"
    words = ["--labelled", folders / "known", "--unlabelled", folders / "pile", "--novel", 2, "--out", out]
    small = ["--set", "network=tiny", "--set", "data.size=16", "--set", "stage1.epochs=15", "--set", "stage1.batch=8"]
    done = newfound("discover", *words, "--method", "kmeans", *small, "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["known"] == ["disc", "square"]
    assert result["images"] == {"labelled": 24, "unlabelled": 24, "test": 0, "skipped": 1}
    assert "stage1" in done.stderr
    assert "images/s" in done.stderr
    names = {p.name for p in out.iterdir() if not p.name.startswith(".")}
    expected = {"settings.yaml", "collection.json", "metrics.jsonl", "checkpoint", "model"}
    assert names == expected | {
        "assignments.csv", "skipped.csv", "result.json", "categories.png", "report.safetensors",
        "report.html",
    }  # fmt: skip
    with Image.open(out / "categories.png") as sheet:
        assert sheet.size == (12 * (48 + 3) + 3, 2 * (48 + 3) + 3)
    assert "notes.txt" in (out / "skipped.csv").read_text()

    truth = folders / "truth.csv"
    truth.write_text("image,label\n" + "".join(f"{i:02d}.png,{'rows' if i % 2 else 'columns'}\n" for i in range(24)))
    status, judged, errors = called(["evaluate", out, "--answers", truth, "--json"], monkeypatch, capsys)
    assert status == 0, errors
    accuracy = json.loads(judged)["unlabelled"]["accuracy"]
    assert accuracy > 0.9
    assert json.loads((out / "result.json").read_text())["unlabelled"]["accuracy"] == accuracy

    said = io.StringIO()
    assess(out, truth, device="cpu", reporter=Reporter(stream=said))
    assert said.getvalue().startswith(f"the figures are now in {out}: result.json")

    status, _, errors = called(["evaluate", out], monkeypatch, capsys)
    assert status == 2
    assert "nobody told" in errors

    words = ["predict", out, folders / "known" / "disc", folders / "pile" / "00.png", "--json"]
    status, named, errors = called(words, monkeypatch, capsys)
    assert status == 0, errors
    rows = json.loads(named)
    assert len(rows) == 13
    assert sum(row["category"] == "disc" for row in rows[:12]) >= 10
    assert rows[12]["category"].startswith("novel-")


def test_a_finished_run_evaluates_again_to_the_same_figures(finished, monkeypatch, capsys):
    before = json.loads((finished / "result.json").read_text())
    status, again, errors = called(["evaluate", finished, "--json"], monkeypatch, capsys)
    assert status == 0, errors
    figures = json.loads(again)
    assert figures["unlabelled"] == before["unlabelled"]
    assert figures["test"] == before["test"]
    assert set(figures["test"]) == {"paper", "single", "strict", "task-aware"}


def test_resuming_a_finished_run_changes_nothing(finished):
    before = {p: p.read_bytes() for p in finished.rglob("*") if p.is_file()}
    done = newfound("resume", finished)
    assert done.returncode == 0
    assert "finished already" in done.stderr
    assert {p: p.read_bytes() for p in finished.rglob("*") if p.is_file()} == before


def test_quiet_keeps_standard_error_empty(quiet):
    _, done = quiet
    assert (done.returncode, done.stderr) == (0, "")
    assert "novel-05" in done.stdout


def wrong_calls(folder, finished):
    (folder / "known" / "a").mkdir(parents=True)
    (folder / "pile").mkdir()
    (folder / "busy").mkdir()
    (folder / "busy" / "letter.txt").write_text("mine")
    here = ["--labelled", folder / "known", "--unlabelled", folder / "pile"]
    out = ["--out", folder / "new"]
    digits = ["discover", "--dataset", "digits"]
    features = ["--features", folder / "features.npy", "--labels", folder / "labels.csv"]
    return {
        "holds a run already: go on with `newfound resume": [*digits, "--out", finished],
        "is not an empty folder": [*digits, "--out", folder / "busy"],
        "there is no data set cifar11": ["discover", "--dataset", "cifar11", *out],
        "either --dataset or --labelled": [*digits, *here, *out],
        "give --labelled and --unlabelled folders": ["discover", *out],
        "say with --novel how many categories to look for; --novel auto": ["discover", *here, *out],
        "it has to be a whole number, or auto": ["discover", *here, "--novel", "many", *out],
        "or the --run to count in": ["count"],
        "--run counts among the images of that run": ["count", "--run", finished, *here],
        "at least one category": ["discover", *here, "--novel", 0, *out],
        "cannot find 700 novel categories among the 679": [*digits, "--novel", 700, *out],
        "no setting stage9": [*digits, "--set", "stage9.epochs=1", *out],
        "cannot be tuned": ["discover", *features, "--novel", 2, "--set", "tune.blocks=1", *out],
        "there is no recipe": [*digits, "--recipe", "none", *out],
        "there is no method apl9": [*digits, "--method", "apl9", *out],
        "--device tpu": [*digits, "--device", "tpu", *out],
        "there is no run in": ["resume", folder / "nowhere"],
        "Missing option '--out'": digits,
        "--seed": [*digits, "--seed", -1, *out],
        "none of the 1 files": ["predict", finished, folder / "busy" / "letter.txt"],
        "no file or folder": ["predict", finished, folder / "nothing.png"],
        "No such command": ["discovr"],
    }


def test_wrong_calls_end_with_one_line_and_status_2(tmp_path, finished, monkeypatch, capsys):
    calls = wrong_calls(tmp_path, finished)
    for complaint, words in calls.items():
        monkeypatch.setattr(sys, "argv", ["newfound", *map(str, words)])
        status, said = cli.status(), capsys.readouterr()
        lines = [line for line in said.err.splitlines() if not line.startswith(("reading images", "warning"))]
        assert status == 2, (words, said.err)
        assert len(lines) == 1, (words, said.err)
        assert lines[0].startswith("newfound: ")
        assert complaint in lines[0], (words, lines)
        assert said.out == ""
    assert not (tmp_path / "new").exists(), "a call that failed left a run folder behind"
    done = newfound(*words)
    assert (done.returncode, done.stdout, done.stderr.splitlines()[-1]) == (2, "", lines[0])


def test_changed_images_stop_a_resume(tmp_path, finished, monkeypatch, capsys):
    import shutil

    run = tmp_path / "run"
    shutil.copytree(finished, run)
    (run / "result.json").unlink()
    record = json.loads((run / "collection.json").read_text())
    (run / "collection.json").write_text(json.dumps(record | {"fingerprint": "0" * 32, "labelled": 1}))
    status, _, errors = called(["resume", run], monkeypatch, capsys)
    assert status == 2
    assert "have changed since it began (labelled 1 then" in errors


def test_ctrl_c_leaves_a_run_that_resumes(tmp_path):
    import signal

    run = tmp_path / "run"
    words = ["discover", "--dataset", "digits", "--method", "kmeans", "--set", "stage1.epochs=2000", "--out", run]
    process = subprocess.Popen([sys.executable, "-m", "newfound", *map(str, words)], stderr=subprocess.PIPE, text=True)
    while not any((run / "checkpoint").glob("stage1-*")):
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "newfound resume" in errors.splitlines()[-1]
    newest = max(p.name for p in (run / "checkpoint").glob("stage1-*"))
    state = json.loads((run / "checkpoint" / newest / "state.json").read_text())
    assert f"stopped after step {state['step']} of 20000" in errors


def status_of(error, monkeypatch, capsys):
    """The exit status and the lines on standard error of a command that ends with that error."""

    def fail(*_, **__):
        raise error

    monkeypatch.setattr(cli, "app", fail)
    return cli.status(), capsys.readouterr().err.splitlines()


@pytest.mark.parametrize("name", ["ENOENT", "ENOTDIR", "EISDIR", "EACCES", "EPERM", "EROFS", "ENAMETOOLONG", "ELOOP"])
def test_a_path_the_system_refuses_is_one_line_and_status_2(name, monkeypatch, capsys):
    error = OSError(getattr(errno, name), "Refused", "some/where")
    assert status_of(error, monkeypatch, capsys) == (2, ["newfound: some/where: Refused"])


def test_other_failures_of_a_file_are_one_line_and_status_1(monkeypatch, capsys):
    error = OSError(errno.EIO, "Input/output error", "some/where")
    assert status_of(error, monkeypatch, capsys) == (1, ["newfound: some/where: Input/output error"])


def test_a_full_disk_is_one_line_and_status_2(monkeypatch, capsys):
    status, lines = status_of(OSError(errno.ENOSPC, "No space left", "some/where"), monkeypatch, capsys)
    assert status == 2
    assert len(lines) == 1
    assert "the disk is full" in lines[0]


def test_a_failure_that_names_no_file_keeps_its_traceback(monkeypatch, capsys):
    with pytest.raises(OSError, match="strange"):
        status_of(OSError("strange"), monkeypatch, capsys)


def test_a_loss_that_is_no_number_is_one_line_and_status_1(monkeypatch, capsys, tmp_path):
    words = ["discover", "--dataset", "digits", "--method", "kmeans", "--set", "stage1.lr=1e30"]
    status, _, errors = called([*words, "--out", tmp_path / "run"], monkeypatch, capsys)
    assert status == 1
    assert errors.startswith("newfound: the loss is no longer a number")
    assert len(errors.splitlines()) == 1

    class Other(RuntimeError):
        pass

    Other.__name__ = "Diverged"
    with pytest.raises(Other):
        status_of(Other("mine"), monkeypatch, capsys)
    assert status_of(Diverged("no number"), monkeypatch, capsys) == (1, ["newfound: no number"])


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--set", "network=foo"], "network is 'foo'; it can be resnet18"),
        (["--set", "method=foo"], "choose it with --method"),
        (["--set", "stage1.lr=.inf"], "stage1.lr is inf; it has to be finite"),
        (["--set", "stage1.lr=.nan"], "stage1.lr is nan; it has to be finite"),
        (["--set", "stage1.epochs=10000000"], "it has to be from 1 to 1,000,000"),
        (["--set", "stage1.batch=10000000"], "it has to be from 2 to 1,000,000"),
        (["--set", "stage1.nesterov=true", "--set", "stage1.momentum=0"], "stage1.nesterov needs a momentum"),
        (["--threads", 5000], "--threads"),
    ],
)
def test_wrong_settings_are_refused_before_the_run_folder_is_made(words, complaint, monkeypatch, capsys, tmp_path):
    made = []
    monkeypatch.setattr("newfound.runs.discovery.claimed", made.append)
    call = ["discover", "--dataset", "digits", "--method", "kmeans", *words, "--out", tmp_path / "run"]
    status, _, errors = called(call, monkeypatch, capsys)
    assert status == 2
    assert len(errors.splitlines()) == 1
    assert complaint in errors
    assert not made


@pytest.mark.parametrize(("place", "complaint"), [("pile/new", "lies inside --unlabelled"), ("file/new", "Not a dir")])
def test_a_wrong_place_for_the_run_is_one_line_and_status_2(place, complaint, folders, monkeypatch, capsys):
    (folders / "file").write_text("mine")
    trees = ["--labelled", folders / "known", "--unlabelled", folders / "pile", "--novel", 2]
    status, _, errors = called(["discover", *trees, "--out", folders / place], monkeypatch, capsys)
    assert status == 2
    assert len(errors.splitlines()) == 1
    assert complaint in errors
    assert not (folders / "pile" / "new").exists()


def test_ctrl_c_says_how_to_go_on_wherever_it_comes(monkeypatch, capsys, tmp_path):
    from newfound.runs import discovery

    def interrupt(*_):
        raise KeyboardInterrupt

    run = tmp_path / "run"
    words = ["discover", "--dataset", "digits", *QUICK, "--out", run]
    with monkeypatch.context() as patch:
        patch.setattr(discovery, "read_call", interrupt)
        found = called(words, monkeypatch, capsys)
    assert found == (130, "", "newfound: interrupted before the run began; call again\n")
    monkeypatch.setattr(discovery, "write_assignments", interrupt)
    found = called(words, monkeypatch, capsys)
    assert found == (130, "", f"newfound: interrupted; go on with `newfound resume {run}`\n")


@pytest.mark.parametrize("module", ["typer", "torch"])
def test_ctrl_c_while_modules_are_imported_is_one_line_and_status_130(module, monkeypatch, tmp_path):
    (tmp_path / f"{module}.py").write_text("raise KeyboardInterrupt")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    done = newfound("discover", "--dataset", "digits", "--out", tmp_path / "run")
    assert (done.returncode, done.stderr) == (130, "newfound: interrupted\n")


def test_resume_takes_a_device(tmp_path, finished, monkeypatch, capsys):
    import shutil

    run = tmp_path / "run"
    shutil.copytree(finished, run)
    (run / "result.json").unlink()
    status, _, errors = called(["resume", run, "--device", "tpu"], monkeypatch, capsys)
    assert status == 2
    assert "--device tpu" in errors


def test_methods_are_listed_with_whose_they_are_what_they_need_and_how_good_they_are(monkeypatch, capsys):
    monkeypatch.setattr("newfound.methods.recorded", {"kmeans": RECORDED}.get)
    monkeypatch.setattr(sys, "argv", ["newfound", "methods", "kmeans", "--json"])
    assert cli.status() == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found) == ["kmeans"]
    kmeans = found["kmeans"]
    assert kmeans["summary"].startswith("Train a classifier on the labelled images")
    assert "Zhang et al." in kmeans["reference"]
    assert (kmeans["year"], kmeans["takes"], kmeans["gpu"]) == (2024, ["backbone", "features", "images"], False)
    assert "kmeans-cifar10" in kmeans["recipes"]
    assert all(recipe.startswith("kmeans") for recipe in kmeans["recipes"])
    assert kmeans["recorded"] == RECORDED
    assert {"network", "stage1.epochs", "cluster.algorithm"} < set(kmeans["settings"])
    assert not {"method", "stage1"} & set(kmeans["settings"])


RECORDED = {
    "cifar10": {"accuracy": 65.78, "seeds": 2, "published": "65.5 ± 0.0", "source": "paper"},
    "cifar100": {"accuracy": 51.7, "seeds": 1, "published": "", "source": ""},
}


def test_the_list_of_methods_is_lines_and_one_in_full_has_its_seeds(monkeypatch, capsys):
    monkeypatch.setattr("newfound.methods.recorded", lambda name: RECORDED if name == "kmeans" else {})
    monkeypatch.setattr(sys, "argv", ["newfound", "methods"])
    assert cli.status() == 0
    lines = capsys.readouterr().out.splitlines()
    begin = next(i for i, line in enumerate(lines) if line.startswith("kmeans (2024): Train a classifier"))
    assert lines[begin + 2] == "  learns from backbone, features, images, mixed piles (--mixed); needs no GPU"
    assert lines[begin + 3] == "  accuracy: cifar10 65.8 (65.5 ± 0.0), cifar100 51.7"
    assert lines[begin + 4].startswith("  recipes: kmeans-cifar10, ")
    assert "  learns from images; a GPU is advised" in lines
    monkeypatch.setattr(sys, "argv", ["newfound", "methods", "kmeans"])
    assert cli.status() == 0
    lines = capsys.readouterr().out.splitlines()
    assert "    cifar10: 65.8 %, the mean of 2 seeds; published: 65.5 ± 0.0 (paper)" in lines
    assert "    cifar100: 51.7 %, 1 seed" in lines
    begin = next(i for i, line in enumerate(lines) if line.startswith("  settings, for --set and in recipes"))
    assert "docs/reference/settings.md" in lines[begin]
    assert lines[begin + 1].startswith("    network, ")
    assert [line.partition(".")[0] for line in lines[begin + 2 :]] == [
        "    data", "    views", "    stage1", "    cluster"
    ]  # fmt: skip
    monkeypatch.setattr(sys, "argv", ["newfound", "methods", "apl-features"])
    assert cli.status() == 0
    assert "  no accuracy on record" in capsys.readouterr().out.splitlines()


def test_methods_are_listed_without_torch_and_a_wrong_name_is_one_line():
    code = "import sys; from newfound.cli import main; sys.argv = ['newfound', 'methods']; main.status()"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; print('torch' in sys.modules)"], capture_output=True, text=True
    )
    assert done.stdout.splitlines()[-1] == "False"
    done = newfound("methods", "nothing")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("newfound: there is no method nothing; there are: ")
