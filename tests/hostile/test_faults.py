"""Before every operation on files a command is killed, the disk has an error, or is full: nothing is lost, the next
call goes on, and nothing is left over."""

import json
import shutil
import sys
from functools import cache

import faults
import numpy as np
import pytest
import torch
from hostile_files import TINY_WORDS as WORDS
from hostile_files import everything, note
from safetensors.torch import load_file
from typer.main import get_command

from newfound.cli import main as cli
from newfound.data.cache import decode_cached
from newfound.data.folder import list_images
from newfound.engine.frozen import frozen_features
from newfound.errors import UserError
from newfound.files import TEMPORARY
from newfound.progress import Reporter
from newfound.runfolder import Run
from newfound.together import JOURNAL


@cache
def built():
    """The command line, whose options take longer to set up than most commands here."""
    return get_command(cli.app)


def command(*words):
    def call():
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(cli, "app", built())
            patch.setattr(sys, "argv", ["newfound", *map(str, words)])
            return cli.status()

    return call


def require_works(root, *calls):
    """Nothing fails any more, one command after the other; gives what they told."""
    status, told, _ = faults.run(lambda: max(call() for call in calls), root)
    assert status == 0, told
    return told


def require_nothing_left(root):
    left = [path for path in root.rglob(".*") if TEMPORARY.fullmatch(path.name) or path.name == JOURNAL]
    assert left == []


def same(one, other, names):
    for name in names:
        assert (one / name).read_bytes() == (other / name).read_bytes(), name


class Case:
    """A command on a folder: how the folder is before it, and what has to hold after a fault."""

    def __init__(self, made, place):
        self.made, self.place, self.root = made, place, place / "root"
        self.run = self.root / "run"

    def prepare(self):
        shutil.rmtree(self.root, ignore_errors=True)
        self.root.mkdir(parents=True)
        shutil.copytree(self.made / "run", self.run)


class Discover(Case):
    def prepare(self):
        shutil.rmtree(self.root, ignore_errors=True)
        self.root.mkdir(parents=True)

    def words(self):
        trees = ["--labelled", self.made / "known", "--unlabelled", self.made / "pile", "--novel", 2]
        place = ["--cache", self.root / "cache", "--out", self.run]
        return command("discover", *trees, "--method", "kmeans", *WORDS, *place)

    def check(self):
        begun = (self.run / "settings.yaml").exists()
        calls = [command("resume", self.run) if begun else self.words(), command("report", self.run)]
        require_works(self.root, *calls)
        same(self.run, self.made / "run", ("assignments.csv", "metrics.jsonl", "collection.json"))


class Resume(Discover):
    def prepare(self):
        Case.prepare(self)
        (self.run / "result.json").unlink()

    def words(self):
        return command("resume", self.run)


class Report(Case):
    def words(self):
        return command("report", self.run)

    def check(self):
        assert (self.run / "report.html").read_bytes().rstrip().endswith(b"</html>")
        require_works(self.root, self.words())
        same(self.run, self.made / "run", ("result.json", "assignments.csv"))


class Evaluate(Case):
    def words(self):
        return command("evaluate", self.run, "--answers", self.made / "truth.csv")

    def check(self):
        run = Run.open(self.run)
        told = {"result": "unlabelled" in run.read_result(), "confusion": (self.run / "confusion.csv").exists()}
        told["page"] = b'"unlabelled":{' in (self.run / "report.html").read_bytes()
        assert len(set(told.values())) == 1, told
        require_works(self.root, self.words())


class Export(Case):
    def words(self):
        return command("export", self.run, "--to", self.root / "sorted")

    def check(self):
        to = self.root / "sorted"
        if to.exists():
            assert len([*to.rglob("*.png")]) == 8
            shutil.rmtree(to)
        require_works(self.root, self.words())
        assert len([*to.rglob("*.png")]) == 8
        assert everything(self.run) == everything(self.made / "run")


class Predict(Case):
    def prepare(self):
        super().prepare()
        (self.root / "found.csv").write_text("an earlier one")

    def words(self):
        return command("predict", self.run, self.made / "pile", "--out", self.root / "found.csv")

    def check(self):
        text = (self.root / "found.csv").read_text()
        assert text == "an earlier one" or len(text.splitlines()) == 9
        require_works(self.root, self.words())
        assert len((self.root / "found.csv").read_text().splitlines()) == 9


class Save(Case):
    """Discoverer.save over an earlier model: another one, so that a mixture of the two would be seen."""

    def prepare(self):
        shutil.rmtree(self.root, ignore_errors=True)
        shutil.copytree(self.made / "run" / "model", self.root / "model")

    def words(self):
        from newfound import load

        def call():
            model = load(self.made / "run" / "model")
            with torch.no_grad():
                for value in model.model_.parameters():
                    value.add_(1)
            model.model_.method = "mine"
            try:
                model.save(self.root / "model")
            except (OSError, UserError) as error:
                print(f"newfound: {error}", file=sys.stderr)
                return 1
            return 0

        return call

    def check(self):
        before = load_file(self.made / "run" / "model" / "model.safetensors")
        now = load_file(self.root / "model" / "model.safetensors")
        changed = {bool((now[name] != value).any()) for name, value in before.items() if value.is_floating_point()}
        method = json.loads((self.root / "model" / "model.json").read_text())["method"]
        assert (True in changed) == (method == "mine")
        require_works(self.root, self.words())


class Cache(Case):
    """Decoded images are read where the cache has rotted, and are made anew."""

    def prepare(self):
        shutil.rmtree(self.root, ignore_errors=True)
        shutil.copytree(self.made / "cache", self.root / "cache")
        for path in (self.root / "cache").glob("images-*/pixels.bin"):
            path.write_bytes(path.read_bytes()[::-1])

    def words(self):
        def call():
            images = decode_cached(self.files(), 8, cache=self.root / "cache", reporter=Reporter()).images
            return 0 if images.fingerprint() == self.expected() else 90

        return call

    def files(self):
        return [path for name in ("known", "pile") for path in list_images(self.made / name)]

    def expected(self):
        return decode_cached(self.files(), 8, cache=None, reporter=Reporter(quiet=True)).images.fingerprint()

    def check(self):
        require_works(self.root, self.words())
        told = require_works(self.root, self.words())  # the second finds all of it
        assert "warning" not in told, told


class Features(Cache):
    """Features of a network that does not learn, of which the cache has some, and one file that has rotted."""

    def prepare(self):
        shutil.rmtree(self.root, ignore_errors=True)
        self.features(range(4))
        good = set(self.root.rglob("*.safetensors"))
        self.features(range(8))
        for path in set(self.root.rglob("*.safetensors")) - good:
            path.write_bytes(path.read_bytes()[:-1] + b"x")

    def features(self, rows, cache="cache", reporter=None):
        images = decode_cached(self.files(), 8, cache=None, reporter=Reporter(quiet=True)).images.take(np.array(rows))
        options = {"identity": "flat", "cache": self.root / cache if cache else None}
        reporter, network = reporter or Reporter(quiet=True), torch.nn.Flatten()
        return frozen_features(network, images, torch.device("cpu"), reporter, of=network, **options)

    def words(self):
        def call():
            rows = range(len(self.files()))
            found = self.features(rows, reporter=Reporter())
            return 0 if torch.equal(found, self.features(rows, cache=None)) else 90

        return call


CASES = {"discover": Discover, "resume": Resume, "report": Report, "evaluate": Evaluate}
CASES |= {"export": Export, "predict --out": Predict, "save": Save}
CASES |= {"cache of images": Cache, "cache of features": Features}


def tried(case, fault, at):
    """What went wrong after one fault, or None."""
    case.prepare()
    status, told, _ = faults.run(case.words(), case.root, at, fault)
    try:
        assert status in ((-9, 0) if fault == "kill" else (0, 1, 2)), f"status {status}: {told}"
        assert "Traceback" not in told, told
        case.check()
        require_nothing_left(case.root)
    except Exception as error:
        return f"{fault} before operation {at}: {type(error).__name__}: {error}"
    except AssertionError as error:
        return f"{fault} before operation {at}: {error}"
    return None


def operations(case):
    """How many operations the command has, and how many files it reads."""
    case.prepare()
    assert case.words()() == 0  # in this process, or each child would import what it needs
    case.prepare()
    status, told, numbers = faults.run(case.words(), case.root)
    assert status == 0, told
    return numbers


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("fault", faults.FAULTS)
@pytest.mark.parametrize("name", CASES)
def test_no_fault_before_any_operation_loses_anything(made_once, tmp_path, name, fault):
    case = CASES[name](made_once, tmp_path)
    written, read = operations(case)
    number = read if fault == "EIO on reading" else written
    bad = [told for at in range(number) if (told := tried(case, fault, at))]
    note("faults", f"{name}, {fault}", number, len(bad))
    assert bad == []


@pytest.mark.parametrize("name", ["evaluate", "save"])
def test_a_kill_before_some_operations_loses_nothing(made_once, tmp_path, name):
    """The same for a few operations, quickly."""
    case = CASES[name](made_once, tmp_path)
    number, _ = operations(case)
    assert number > 8, "operations are counted"
    assert [told for at in range(1, number, 5) if (told := tried(case, "kill", at))] == []


def test_a_fault_that_is_not_handled_is_seen(made_once, tmp_path, monkeypatch):
    """Two files that change one after the other are found out."""

    def one_by_one(folder, contents):
        for name, content in contents.items():
            (folder / name).write_bytes(content)

    monkeypatch.setattr("newfound.runfolder.change_together", one_by_one)
    monkeypatch.setattr("pathlib.Path.write_bytes", _counted_write)
    case = Evaluate(made_once, tmp_path)
    number, _ = operations(case)
    assert [told for at in range(number) if (told := tried(case, "kill", at))] != []


def _counted_write(path, content):
    faults.operation("write")
    with open(path, "wb") as file:
        file.write(content)
