"""How much memory may be taken: a share of what is free to this process, limits of its control group included."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from pathlib import Path

from newfound.errors import UserError

SHARE = 0.8
"""Of the free memory, what one thing may take: the rest is for what is computed from it."""
LITTLE = 2**26
"""Bytes that anything may take: asking the system costs more."""
UNKNOWN = 4 * 2**30
"""Bytes that are taken to be free where the system does not say."""
UNLIMITED = 2**60
"""Limits from here on are none."""
FULL, FULL_GPU = "the memory is full", "the memory of the GPU is full"
_SAID = {
    FULL_GPU: (
        r"CUDA (driver )?error: out of memory|CUBLAS_STATUS_ALLOC_FAILED|CUDNN_STATUS_ALLOC_FAILED|CUFFT_ALLOC_FAILED"
    ),
    f"{FULL}, or there are too many threads": r"can't start new thread",
    FULL: r"Cannot allocate memory|can't allocate memory|Failed to allocate memory|std::bad_alloc",
    "the memory is probably full": r"failed to map segment from shared object$|could not create a primitive$",
}
"""In which words Python, torch, oneDNN, onnxruntime and the loader of libraries say so. The last two may mean something
else: a library that may not be run from where it lies, or an operation that there is not."""
PROC, CGROUP = Path("/proc"), Path("/sys/fs/cgroup")


def free_memory() -> int:
    """Bytes that this process can still take before the system, its control group or its own limit is full."""
    return max(0, min([_of_system(), *_of_groups(), *_of_process()]))


def require_memory(needed: int, what: str, remedy: str = "") -> None:
    """A UserError unless ``needed`` bytes are at most their ``SHARE`` of the free memory."""
    if needed < LITTLE:
        return
    free = free_memory()
    if needed > SHARE * free:
        raise UserError(f"{what} takes {size(needed)} of memory, and {size(free)} are free{remedy and f': {remedy}'}")


def ran_out(error: BaseException) -> str:
    """What an error says of a memory that was not enough, a part of a sentence; "" where it says something else."""
    kinds = {kind.__name__ for kind in type(error).__mro__}
    if "OutOfMemoryError" in kinds:  # torch's, which is not imported here
        return FULL_GPU
    if isinstance(error, OSError) and error.errno is not None:
        return FULL if error.errno == errno.ENOMEM else ""
    if "MemoryError" in kinds:
        return FULL
    return next((what for what, words in _SAID.items() if re.search(words, str(error))), "")


def size(number: float) -> str:
    """A number of bytes in words: 1.8 GB."""
    return f"{number / 1e9:,.1f} GB" if number >= 1e9 else f"{number / 1e6:,.0f} MB"


def _of_system() -> int:
    fields = _fields(PROC / "meminfo")
    if "MemAvailable" in fields:
        return fields["MemAvailable"] * 1024
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    except (ValueError, OSError):
        return UNKNOWN


def _of_groups() -> Iterator[int]:
    """What each control group around the process has left; caches of files, which give way, do not count."""
    names = {"memory.max": "memory.current", "memory.limit_in_bytes": "memory.usage_in_bytes"}
    for folder in _groups():
        for limit, usage in names.items():
            most, used = _number(folder / limit), _number(folder / usage)
            if most is not None and used is not None and most < UNLIMITED:
                kept = _fields(folder / "memory.stat")
                caches = (kept.get(f"total_{name}", kept.get(name, 0)) for name in ("active_file", "inactive_file"))
                yield most - used + sum(caches)


def _groups() -> Iterator[Path]:
    try:
        lines = (PROC / "self" / "cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        root = CGROUP / "memory" if controllers else CGROUP
        inside = root / path.lstrip("/")
        yield from (folder for folder in (inside, *inside.parents) if folder.is_relative_to(root))
        if not inside.is_dir():  # in a container, whose own group is the root of what it sees
            yield root


def _of_process() -> Iterator[int]:
    try:
        import resource
    except ImportError:
        return
    most, _ = resource.getrlimit(resource.RLIMIT_AS)
    if most != resource.RLIM_INFINITY:
        used = _number(PROC / "self" / "statm") or 0
        yield most - used * os.sysconf("SC_PAGE_SIZE")


def _number(path: Path) -> int | None:
    """The number that a file begins with."""
    try:
        return int(path.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return None


def _fields(path: Path) -> dict[str, int]:
    """The numbers of a file with a name and a number a line."""
    try:
        lines = [line.replace(":", " ").split() for line in path.read_text().splitlines()]
    except OSError:
        return {}
    return {line[0]: int(line[1]) for line in lines if len(line) > 1 and line[1].isdigit()}
