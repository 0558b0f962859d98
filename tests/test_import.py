"""What importing newfound does, and what it leaves alone."""

import os
import subprocess
import sys

import pytest

SPINNING = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")


def printed(code, **given):
    """Standard output and error of the code in a process with no more of OpenMP's settings than those given."""
    kept = {name: value for name, value in os.environ.items() if name not in SPINNING}
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
