"""What belongs to the Python program that calls newfound is afterwards as it was; a call that makes no sense is a
UserError and no other library's exception."""

import os
import random
import shutil
import signal
import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch
from hostile_files import TINY, finished_run, make_trees

from newfound import Discoverer, UserError, discover, load, open_run, resume
from newfound.data.given import number_labels


@pytest.fixture(scope="module")
def made_once(tmp_path_factory):
    return finished_run(tmp_path_factory.mktemp("finished"), method="kmeans")


@pytest.fixture
def trees(tmp_path):
    return make_trees(tmp_path)


def state():
    """Everything of a program that a library might change."""
    kind, keys, place, *rest = np.random.get_state()  # noqa: NPY002 - the one that libraries might use
    return {
        "threads": torch.get_num_threads(),
        "type": torch.get_default_dtype(),
        "device": torch.get_default_device(),
        "gradients": torch.is_grad_enabled(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "cuDNN": (torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic),
        "precision": torch.get_float32_matmul_precision(),
        "torch": torch.get_rng_state().numpy().tobytes(),
        "numpy": (kind, keys.tobytes(), place, *rest),
        "python": random.getstate(),
        "numpy's errors": np.geterr(),
        "warnings": list(warnings.filters),
        "signals": [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)],
        "streams": (sys.stdin, sys.stdout, sys.stderr),
        "environment": dict(os.environ),
        "folder": os.getcwd(),
        "limit": sys.getrecursionlimit(),
    }


@pytest.fixture
def odd(monkeypatch):
    """A program that has set things in its own way."""
    threads, generator = torch.get_num_threads(), torch.get_rng_state()
    torch.set_num_threads(2)
    torch.set_default_dtype(torch.float64)
    torch.set_default_device("meta")
    torch.use_deterministic_algorithms(True)
    torch.set_grad_enabled(False)
    before = np.seterr(invalid="ignore")
    handler = signal.signal(signal.SIGTERM, lambda *_: None)
    yield
    signal.signal(signal.SIGTERM, handler)
    np.seterr(**before)
    torch.set_grad_enabled(True)
    torch.use_deterministic_algorithms(False)
    torch.set_default_device(None)
    torch.set_default_dtype(torch.float32)
    torch.set_num_threads(threads)
    torch.set_rng_state(generator)


def fit(trees, **settings):
    images = np.random.default_rng(0).integers(0, 255, (12, 8, 8, 3), dtype=np.uint8)
    return Discoverer("kmeans", n_novel=2, settings=TINY | settings).fit(images, ["a", "b"] * 3 + [None] * 6), images


def refused(trees):
    with pytest.raises(UserError):
        discover(trees / "known", trees / "pile", n_novel=99, out=trees / "run", method="kmeans", settings=TINY)


CALLS = {
    "discover": lambda trees: discover(
        trees / "known", trees / "pile", n_novel=2, out=trees / "run", method="kmeans", settings=TINY, threads=1
    ),
    "a refused discover": lambda trees: refused(trees),
    "resume": lambda trees: ((trees / "run" / "result.json").unlink(), resume(trees / "run")),
    "load": lambda trees: load(trees / "run" / "model"),
    "evaluate": lambda trees: open_run(trees / "run").evaluate(trees / "truth.csv"),
    "fit and predict": lambda trees: (lambda model, images: model.predict(images))(*fit(trees)),
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("settings", ["usual", "odd"])
@pytest.mark.parametrize("call", CALLS)
def test_a_call_leaves_the_program_as_it_was(call, settings, made_once, tmp_path, request):
    """``made_once`` has imported everything: other libraries have filters of warnings and variables of their own."""
    make_trees(tmp_path)
    if call in ("resume", "load", "evaluate"):
        shutil.copytree(made_once / "run", tmp_path / "run")
        shutil.copy(made_once / "truth.csv", tmp_path)
    if settings == "odd":
        request.getfixturevalue("odd")
    before = state()
    CALLS[call](tmp_path)
    after = state()
    assert {name for name in before if before[name] != after[name]} == set()


def test_what_the_program_has_set_does_not_change_what_is_found(made_once, trees, odd):
    found = CALLS["discover"](trees)
    for name in ("metrics.jsonl", "model/model.safetensors"):
        assert (found.folder / name).read_bytes() == (made_once / "run" / name).read_bytes(), name


NONSENSE = {
    "a list": [],
    "a text": "x",
    "a number": 3,
    "an object": {"stage1.epochs": object()},
    "an object as a name": {object(): 1},
    "an array": {"stage1.epochs": np.zeros(3)},
    "a set": {"views.pad": {1}},
    "a function": {"stage1.lr": print},
    "itself": {"stage1": TINY},
}


@pytest.mark.parametrize("settings", NONSENSE.values(), ids=NONSENSE.keys())
def test_settings_that_are_none_are_refused(trees, settings):
    with pytest.raises(UserError):
        discover(trees / "known", trees / "pile", n_novel=2, out=trees / "run", method="kmeans", settings=settings)
    assert not (trees / "run").exists()
    with pytest.raises(UserError):
        Discoverer("kmeans", n_novel=2, settings=settings).fit(np.zeros((4, 8, 8), np.uint8), ["a", "b", None, None])


@pytest.mark.parametrize("device", ["cuda", "cuda:7", "mps", "meta", "gpu", "", 3, None, "cpu:-1"])
def test_a_device_that_there_is_not_is_refused(trees, device):
    if str(device).startswith("cuda") and torch.cuda.is_available():
        pytest.skip("there is one")
    with pytest.raises(UserError, match="device"):
        discover(
            trees / "known", trees / "pile", n_novel=2, out=trees / "run", method="kmeans", settings=TINY, device=device
        )
    with pytest.raises(UserError, match="device"):
        Discoverer("kmeans", n_novel=2, settings=TINY, device=device).fit(np.zeros((4, 8, 8), np.uint8), [0, 1, -1, -1])


@pytest.mark.parametrize("place", ["a file", "below a file", "a folder of one's own", "a link to a file", 3, None])
def test_saving_over_what_is_no_model_is_refused_and_changes_nothing(made_once, tmp_path, place):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "letter.txt").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    places = {"a file": "file", "below a file": "file/model", "a folder of one's own": "folder"}
    places |= {"a link to a file": "link"}
    to = tmp_path / places[place] if place in places else place
    with pytest.raises(UserError):
        load(made_once / "run" / "model").save(to)
    assert (tmp_path / "file").read_text() == (tmp_path / "folder" / "letter.txt").read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder", "link"]


def test_labels_that_are_missing_are_unknown_however_they_are_said():
    pandas = pytest.importorskip("pandas")
    nothing = [None, float("nan"), np.nan, np.float32("nan"), pandas.NA, pandas.NaT, np.ma.masked]
    for value in nothing:
        assert number_labels(["a", value, "b"], 3)[1].tolist() == [0, -1, 1], repr(value)
    for kind in ("string", "category", "object"):
        series = pandas.Series(["a", None, "b"], dtype=kind)
        assert number_labels(series, 3)[1].tolist() == [0, -1, 1], kind
    for numbers in (pandas.array([1, None, 3], "Int64"), pandas.Series([1, None, 3]), torch.tensor([1, np.nan, 3])):
        assert number_labels(numbers, 3)[1].tolist() == [0, -1, 1]


FORKED = """
import multiprocessing, sys
import numpy as np, torch
from newfound import Discoverer
torch.set_num_threads(2)
images = np.random.default_rng(0).integers(0, 255, (64, 16, 16, 3), dtype=np.uint8)
labels = ["a", "b"] * 16 + [None] * 32
settings = {"network": "tiny", "stage1.epochs": 1, "stage1.batch": 16}
model = Discoverer("kmeans", n_novel=2, settings=settings).fit(images, labels)
def work(_):
    Discoverer("kmeans", n_novel=2, settings=settings).fit(images, labels)
    return model.predict(images).tolist()
with multiprocessing.get_context("fork").Pool(1) as pool:
    found = pool.map_async(work, [0]).get(timeout=100)
assert found == [model.predict(images).tolist()]
class Images(torch.utils.data.Dataset):
    def __len__(self): return 4
    def __getitem__(self, i): return model.predict(images[i : i + 1])[0]
options = {"num_workers": 1, "collate_fn": list, "multiprocessing_context": "fork", "timeout": 100}
loader = torch.utils.data.DataLoader(Images(), **options)
assert [one for batch in loader for one in batch] == model.predict(images[:4]).tolist()
"""


@pytest.mark.slow
def test_a_forked_process_computes_and_does_not_hang():
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", FORKED], capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr
