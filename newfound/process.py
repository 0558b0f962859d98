"""What is set for the whole process when newfound is imported: how threads wait, how memory is kept."""

from __future__ import annotations

import ctypes
import os
import sys

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
"""glibc's numbers for two parameters of mallopt."""
LARGE = 2**30
"""Bytes. Smaller blocks come from the heap, and the heap keeps up to twice as much free memory."""


def set_up() -> None:
    """Set both, unless the environment says otherwise."""
    if "OMP_WAIT_POLICY" not in os.environ:
        # OpenMP's threads spin this often before they sleep; read when torch is imported. By default they spin for
        # long, which on two cores that other programs use too cost three quarters of the speed.
        os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    if not any(name.startswith("MALLOC_") for name in os.environ):
        keep_freed_memory()


def keep_freed_memory() -> None:
    """Have glibc keep freed blocks for the next tensor instead of giving them back to the system.

    By default each large tensor is mapped anew, and the system clears its pages one by one. On two cores that took most
    of the time of reading features: EfficientNet-Lite0, batches of 32 images of 224 pixels, went from 38 to 239
    images/s, where onnxruntime has 234. It costs memory: 1.8 instead of 1.1 GB at batches of 64.
    """
    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none
    if mallopt:
        mallopt(MMAP_THRESHOLD, LARGE)
        mallopt(TRIM_THRESHOLD, 2 * LARGE - 1)
