"""Streams that are closed, full or gone, signals one after the other, and names that a terminal would obey."""

import json
import mmap
import os
import shlex
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from hostile_files import TINY_WORDS, make_trees

from newfound.cli import main as cli
from newfound.cli.printing import write, write_json
from newfound.data.cache import default_cache
from newfound.memory import ran_out
from newfound.progress import Reporter, Surviving, visible
from newfound.runfolder import Run

NEWFOUND = f"{sys.executable} -m newfound"


def shell(command, **more):
    """Run a line of the shell; gives the exit status of the command, what it printed and what it complained of."""
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, **more)
    return done.returncode, done.stdout.decode(errors="surrogateescape"), done.stderr.decode(errors="replace")


@pytest.mark.parametrize(
    ("streams", "status", "complaint"),
    [
        (">&-", 1, "newfound: standard output cannot be written to: Bad file descriptor"),
        ("> /dev/full", 2, "newfound: the disk is full (standard output"),
        ("| true", 1, ""),
        ("2>&-", 0, ""),
        ("2> /dev/full", 0, ""),
        ("<&-", 0, ""),
        (">&- 2>&- <&-", 1, ""),
    ],
)
def test_a_stream_that_takes_nothing_is_a_status_and_at_most_a_sentence(streams, status, complaint):
    # The pipe is larger than what is printed: the reader has to be gone before.
    line = f"(sleep 0.3; {NEWFOUND} methods) {streams}"
    found, _, told = shell(line)
    assert found == status
    assert told.startswith(complaint)
    assert told.count("\n") == (1 if complaint else 0)


@pytest.mark.parametrize("streams", ["2>&-", "2> /dev/full"])
def test_a_failure_that_nobody_can_be_told_of_keeps_its_status(streams):
    assert shell(f"{NEWFOUND} evaluate /nowhere {streams}")[0] == 2


def test_a_closed_stream_is_not_the_number_of_a_file_that_is_written(tmp_path):
    """What a library prints to standard error would stand in that file."""
    code = (
        "import os; from newfound.cli.streams import open_streams; open_streams();"
        f"file = os.open({str(tmp_path / 'file')!r}, os.O_CREAT | os.O_WRONLY); print(file)"
    )
    status, told, _ = shell(f'{sys.executable} -c "{code}" 2>&-')
    assert (status, int(told) > 2) == (0, True)


def test_a_slow_reader_gets_everything(tmp_path):
    """One whose pipe does not block: what it cannot take at once comes later."""
    code = (
        "import os, sys; from newfound.cli.streams import open_streams; os.set_blocking(1, False); open_streams();"
        "sys.stdout.write('x' * 300_000); sys.stdout.flush()"
    )
    assert shell(f'{sys.executable} -c "{code}" | (sleep 0.5; wc -c)')[1].strip() == "300000"


@pytest.mark.parametrize(
    ("words", "status"), [("evaluate /nowhere --json", 2), ("predict --json", 2), ("--json nonsense", 2)]
)
def test_a_failure_with_json_is_an_object_on_standard_output(monkeypatch, capsys, words, status):
    monkeypatch.setattr(sys, "argv", ["newfound", *words.split()])
    assert cli.status() == status
    told = capsys.readouterr()
    error = json.loads(told.out)
    assert list(error) == ["error"]
    assert told.err == f"newfound: {error['error']}\n"


@pytest.mark.parametrize(
    ("error", "status"),
    [
        *((KeyboardInterrupt(), 130), (cli.Diverged("lost"), 1), (OSError(28, "No space"), 2), (MemoryError(), 2)),
    ],
)
def test_every_kind_of_failure_is_told_in_json_with_its_status(monkeypatch, capsys, error, status):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(cli, "app", fail)
    monkeypatch.setattr(sys, "argv", ["newfound", "discover", "--json"])
    assert cli.status() == status
    assert json.loads(capsys.readouterr().out)["error"]
    monkeypatch.setattr(sys, "argv", ["newfound", "discover", "--", "--json"])
    assert cli.status() == status
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "take",
    [
        lambda: torch.empty(2**50, dtype=torch.uint8),
        lambda: np.empty(2**50, np.uint8),
        lambda: bytearray(2**62),
        lambda: mmap.mmap(-1, 2**50),
    ],
)
def test_a_full_memory_is_one_sentence_whoever_says_it(monkeypatch, capsys, take):
    monkeypatch.setattr(cli, "app", lambda *_, **__: take())
    assert cli.status() == 2
    told = capsys.readouterr().err
    assert told.startswith("newfound: the memory is full")
    assert told.endswith(f": {cli.ROOM}\n")
    assert "\n" not in told[:-1]


GPU = "the memory of the GPU is full"


@pytest.mark.parametrize(
    ("error", "what"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."), GPU),
        (RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be reported"), GPU),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), GPU),
        (RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"), GPU),
        (RuntimeError("std::bad_alloc"), "the memory is full"),
        (RuntimeError("could not create a primitive"), "the memory is probably full"),
        (RuntimeError("unable to mmap 80 bytes from file <a>: Cannot allocate memory (12)"), "the memory is full"),
        (ImportError("lib.so: failed to map segment from shared object"), "the memory is probably full"),
        (OSError(12, "Cannot allocate memory", "file"), "the memory is full"),
        (RuntimeError("can't start new thread"), "the memory is full, or there are too many threads"),
    ],
)
def test_a_full_memory_is_told_as_that_of_the_machine_or_of_the_gpu(monkeypatch, capsys, error, what):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(cli, "app", fail)
    assert cli.status() == 2
    assert capsys.readouterr().err == f"newfound: {what} ({str(error).splitlines()[0]}): {cli.ROOM}\n"


def test_what_is_no_full_memory_is_not_told_as_one():
    assert not ran_out(ImportError("lib.so: cannot allocate memory in static TLS block"))
    assert not ran_out(RuntimeError("could not create a primitive descriptor for the matmul primitive"))
    assert not ran_out(OSError(13, "Permission denied", "file"))
    assert not ran_out(OSError(2, "No such file or directory", "MemoryError: Cannot allocate memory"))
    assert not ran_out(OSError("lib.so: failed to map segment from shared object: Operation not permitted"))


def test_how_much_was_asked_for_is_told(monkeypatch, capsys):
    monkeypatch.setattr(cli, "app", lambda *_, **__: np.empty(10**15))
    assert cli.status() == 2
    assert "(Unable to allocate 7.11 PiB" in capsys.readouterr().err


def test_a_failure_nobody_thought_of_is_told_in_json_and_keeps_its_traceback(monkeypatch, capsys):
    def fail(*_, **__):
        raise ZeroDivisionError("oh")

    monkeypatch.setattr(cli, "app", fail)
    monkeypatch.setattr(sys, "argv", ["newfound", "discover", "--json"])
    with pytest.raises(ZeroDivisionError):
        cli.status()
    assert json.loads(capsys.readouterr().out) == {"error": "ZeroDivisionError: oh"}


def test_json_holds_null_where_there_is_no_number(capsys):
    write_json({"a": [float("nan"), float("inf")], "b": 1.5})
    assert json.loads(capsys.readouterr().out) == {"a": [None, None], "b": 1.5}


ESCAPES = ["\x1b[2J\x1b]0;title\x07", "\x9b31m", "\udc9b31m", "a\rb", "a\bb", "\u202egnp.exe", "\x7f"]


@pytest.mark.parametrize("name", ESCAPES)
def test_nothing_in_a_name_reaches_the_terminal_as_a_command(name, capfd):
    write(f"{name} 3 images\n")
    cli._complain(f"there is no {name}", 2)
    Reporter().warn(name)
    told = capfd.readouterr()
    assert not [c for c in told.out + told.err if c in "\x1b\x9b\udc9b\ufffe\r\b\u202e\x7f\x07"]
    assert told.out == f"{visible(name)} 3 images\n"


def test_progress_outlives_the_one_who_watched_it():
    read, written = os.pipe()
    stream = os.fdopen(written, "w")
    os.close(read)
    reporter = Reporter(stream=stream)
    reporter.say("first")
    with reporter.task("working", 5) as task:
        task.advance(5)
    reporter.warn("last")
    stream = os.fdopen(os.dup(2), "w")
    stream.close()
    Reporter(stream=stream).warn("closed")
    Surviving(None).write("nobody")


LOOP = """
import sys, time
from newfound.process import Ending
from newfound.cli import main as cli
def work(*_, **__):
    print("ready", flush=True)
    try:
        time.sleep(60)
    finally:
        time.sleep({cleaning})
cli.app = work
sys.argv = ["newfound", "x"]
cli.main(Ending())
"""


@pytest.mark.parametrize(
    ("number", "again"),
    [(signal.SIGINT, 0.02), (signal.SIGINT, 0.0), (signal.SIGTERM, 0.1), (signal.SIGHUP, 0.005)],
)
def test_a_signal_that_comes_twice_is_one_line_and_130(number, again):
    process = subprocess.Popen(
        [sys.executable, "-c", LOOP.format(cleaning=0.3)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    time.sleep(again)
    process.send_signal(number)
    _, told = process.communicate(timeout=120)
    assert (process.returncode, told) == (130, "newfound: interrupted\n")


def test_one_who_asks_again_later_need_not_wait():
    process = subprocess.Popen(
        [sys.executable, "-c", LOOP.format(cleaning=60)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    time.sleep(0.8)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=30)
    assert (process.returncode, told) == (130, "newfound: interrupted\n")


def test_nohup_keeps_a_command_from_hearing_that_the_terminal_is_gone():
    code = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)" + LOOP.format(cleaning=0)
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGHUP)
    time.sleep(0.3)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 130


def test_names_and_pages_are_utf_8_whatever_the_locale():
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    status, told, error = shell(f"{NEWFOUND} methods", env=os.environ | plain)
    assert (status, error) == (0, "")
    assert told == shell(f"{NEWFOUND} methods", env=os.environ | {"PYTHONUTF8": "1"})[1]
    status, _, error = shell(f"{NEWFOUND} report /ñandú", env=os.environ | plain)
    assert status == 2
    assert "ñandú" in error


def test_a_user_without_a_home_has_no_cache_and_is_no_traceback(monkeypatch):
    def no_home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr("pathlib.Path.home", no_home)
    with pytest.raises(OSError, match=r"Not a directory|File exists"):
        default_cache().mkdir(parents=True)


def discover_words(folder):
    """A discover of images whose names and categories are not ASCII."""
    make_trees(folder)
    (folder / "known" / "red").rename(folder / "known" / "röt")
    (folder / "pile" / "0.png").rename(folder / "pile" / "名.png")
    trees = ["--labelled", folder / "known", "--unlabelled", folder / "pile", "--novel", "2", "--method", "kmeans"]
    return ["discover", *map(str, trees), *TINY_WORDS, "--out", str(folder / "ruñ")]


HOMELESS = """
import os, pwd, sys
def nobody(*_): raise KeyError("nobody")
pwd.getpwuid = nobody
for name in ("HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"): os.environ.pop(name, None)
from newfound.__main__ import main
main()
"""


@pytest.mark.slow
def test_a_user_without_a_home_in_the_c_locale_discovers_in_names_that_are_not_ascii(tmp_path):
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    words = [sys.executable, "-c", HOMELESS, *discover_words(tmp_path)]
    done = subprocess.run(words, capture_output=True, env=os.environ | plain)
    assert done.returncode == 0, done.stderr
    assert b"Traceback" not in done.stderr
    assert "the decoded images cannot be kept in" in done.stderr.decode()
    run = Run.open(tmp_path / "ruñ")
    assert not run.ours
    assert "名.png" in [row["image"] for row in run.read_assignments()]
    assert run.read_result()["known"] == ["blue", "röt"]
    done = subprocess.run(
        [sys.executable, "-c", HOMELESS, "predict", str(run.folder), str(tmp_path / "pile")],
        capture_output=True,
        env=os.environ | plain,
    )
    assert "名.png" in done.stdout.decode(), done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("streams", "status"), [(">&- 2>&-", 1), ("> /dev/full", 2), ("| true", 1), ("2> /dev/full", 0)]
)
def test_a_run_whose_result_nobody_takes_is_kept(tmp_path, streams, status):
    words = " ".join(map(shlex.quote, discover_words(tmp_path)))
    found, _, told = shell(f"{NEWFOUND} {words} --json {streams}")
    assert found == status, told
    assert "Traceback" not in told
    assert Run.open(tmp_path / "ruñ").finished
    assert shell(f"{NEWFOUND} resume {shlex.quote(str(tmp_path / 'ruñ'))}")[0] == 0


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_run_that_is_asked_to_stop_twice_at_once_goes_on_where_it_was(tmp_path, number):
    words = discover_words(tmp_path)
    words[words.index("stage1.epochs=2")] = "stage1.epochs=2000"
    process = subprocess.Popen([sys.executable, "-m", "newfound", *words], stderr=subprocess.PIPE, text=True)
    run = tmp_path / "ruñ"
    while process.poll() is None and not any(path.stat().st_size for path in run.glob("metrics.jsonl")):
        time.sleep(0.02)
    process.send_signal(number)
    time.sleep(0.02)
    process.send_signal(number)
    told = process.communicate(timeout=120)[1]
    assert process.returncode == 130, told
    assert [line for line in told.splitlines() if line.startswith("newfound: ")] == told.splitlines()[-1:]
    assert "newfound resume" in told
    assert 1 <= len([*(run / "checkpoint").iterdir()]) <= 2
