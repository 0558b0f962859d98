"""What is installed from the wheel works elsewhere."""

import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_wheel_runs_the_demonstration_from_another_folder(tmp_path):
    """In an environment of its own; packages other than newfound are the ones already installed here."""
    built = tmp_path / "dist"
    subprocess.run([sys.executable, "-m", "build", "--wheel", "--outdir", built, ROOT], check=True, capture_output=True)
    (wheel,) = built.glob("newfound-*.whl")
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    here = subprocess.check_output([sys.executable, "-c", "import numpy; print(numpy.__path__[0])"], text=True)
    packages = subprocess.check_output([python, "-c", "import site; print(site.getsitepackages()[0])"], text=True)
    (Path(packages.strip()) / "others.pth").write_text(str(Path(here.strip()).parent) + "\n")
    install = [python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--force-reinstall", wheel]
    subprocess.run(install, check=True, capture_output=True)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    code = "import newfound; print(newfound.__file__)"
    imported = subprocess.check_output([python, "-c", code], cwd=elsewhere, text=True).strip()
    assert imported.startswith(packages.strip())
    done = subprocess.run([python.parent / "newfound", "demo"], cwd=elsewhere, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "t-SNE + k-means" in done.stdout
    assert (elsewhere / "newfound-demo" / "result.json").is_file()
