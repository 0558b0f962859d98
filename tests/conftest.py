import os
import signal
import tempfile

# One thread each, in the processes that tests start too: two workers and those share few cores, and tiny tensors are
# slower on several threads. Threads that wait sleep instead of spinning. Read when torch and numpy are imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

# The key by which a run is known to be one's own: not among the user's files, and one for all tests. Nor is what
# fixtures of a module decode.
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="newfound-state-")
os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix="newfound-cache-")

import pytest
import torch

torch.set_num_threads(1)
if not torch.cuda.is_available():  # Triton reads it when it is imported: kernels then run on the CPU, slowly
    os.environ.setdefault("TRITON_INTERPRET", "1")

# `make test &` and `nohup make test` begin with these signals ignored. Children inherit that, and tests send some to
# them: what has a handler here is as usual there.
for number in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, lambda *_: None)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """Nothing that a test decodes is kept among the user's files."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user-cache"))


@pytest.fixture(autouse=True)
def short_maps(monkeypatch):
    """The map of a run in as few rounds as t-SNE takes: nearly all tests look at something else."""
    monkeypatch.setattr("newfound.report.tsne.ITERATIONS", 250)
