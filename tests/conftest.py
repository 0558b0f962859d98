import pytest
import torch


@pytest.fixture(autouse=True)
def one_thread():
    """Tiny tensors are slower on several threads, and far slower on a busy machine."""
    torch.set_num_threads(1)
