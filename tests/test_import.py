"""What importing newfound does, and what it leaves alone."""

import os
import subprocess
import sys

import pytest

SPINNING = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")


def printed(code, **given):
    """Standard output and error of the code, with no more settings of OpenMP and malloc than those given."""
    kept = {k: v for k, v in os.environ.items() if k not in SPINNING and not k.startswith("MALLOC_")}
    done = subprocess.run([sys.executable, "-c", code], env=kept | given, capture_output=True, text=True, check=True)
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    ("given", "expected"),
    [({}, "10000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "active"}, "None")],
    ids=["nothing", "a count", "a policy"],
)
def test_importing_newfound_keeps_openmp_from_spinning_unless_somebody_chose(given, expected):
    code = "import os, sys, newfound; print(os.environ.get('GOMP_SPINCOUNT'), 'torch' in sys.modules)"
    assert printed(code, **given).split() == [expected, "False"]


@pytest.mark.skipif(sys.platform != "linux", reason="torch has another OpenMP there")
def test_torchs_openmp_reads_what_newfound_has_set():
    assert "GOMP_SPINCOUNT = '10000'" in printed("import newfound, torch", OMP_DISPLAY_ENV="verbose")


FAULTS = """
import resource, newfound, torch
def faults(tensors):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(tensors):
        torch.ones(2**22)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
faults(40), print(faults(40))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="mallopt is glibc's")
def test_memory_of_freed_tensors_serves_the_next_ones_unless_somebody_chose():
    kept, given_back = int(printed(FAULTS)), int(printed(FAULTS, MALLOC_TOP_PAD_="0"))
    assert given_back >= 40 * 8, "16 MiB are mapped anew each time, in pages of 2 MiB at the most"
    assert kept < given_back / 4
