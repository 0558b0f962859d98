import os

# Threads that wait by spinning slow each other down where processes share few cores. Read when torch is imported.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import pytest
import torch

torch.set_num_threads(1)  # tiny tensors are slower on several threads
if not torch.cuda.is_available():  # Triton reads it when it is imported: kernels then run on the CPU, slowly
    os.environ.setdefault("TRITON_INTERPRET", "1")


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """Nothing that a test decodes is kept among the user's files."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user-cache"))


@pytest.fixture(autouse=True)
def short_maps(monkeypatch):
    """The map of a run in as few rounds as t-SNE takes: nearly all tests look at something else."""
    monkeypatch.setattr("newfound.report.tsne.ITERATIONS", 250)
