import os

# Threads that wait by spinning slow each other down where processes share few cores. Read when torch is imported.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import pytest  # noqa: E402
import torch  # noqa: E402


@pytest.fixture(autouse=True)
def one_thread():
    """Tiny tensors are slower on several threads, and far slower on a busy machine."""
    torch.set_num_threads(1)
