"""What `newfound doctor` says of a machine."""

import json
import sys

import torch

from newfound.cli import main as cli
from newfound.plan import auto
from newfound.runs import doctor


def test_it_tells_versions_device_cache_and_choices(tmp_path, monkeypatch, capsys):
    (tmp_path / "decoded").mkdir()
    (tmp_path / "decoded" / "a").write_bytes(bytes(1500))
    (tmp_path / "b").write_bytes(bytes(500))
    monkeypatch.setattr(sys, "argv", ["newfound", "doctor", "--cache", str(tmp_path), "--json"])
    assert cli.status() == 0
    found = json.loads(capsys.readouterr().out)
    assert found["libraries"]["torch"].partition("+")[0] == torch.__version__.partition("+")[0]
    assert found["cache"] == {"folder": str(tmp_path), "files": 2, "bytes": 2000}
    assert found["device"]["kind"] == ("cuda" if torch.cuda.is_available() else "cpu")
    assert found["threads"]["torch"] == torch.get_num_threads()


def test_it_chooses_as_discover_does(tmp_path, monkeypatch):
    monkeypatch.setattr(doctor, "pick_device", lambda name: torch.device("cpu"))
    monkeypatch.setattr(doctor, "is_installed", lambda network: True)
    assert doctor.examine(tmp_path)["choices"]["natural"]["method"] == "apl-features"
    monkeypatch.setattr(doctor, "is_installed", lambda network: False)
    monkeypatch.setattr(auto, "is_installed", lambda network: False)
    choice = doctor.examine(tmp_path)["choices"]["natural"]
    assert choice["method"] == "kmeans"
    assert "a pretrained network finds more" in choice["why"]


def test_a_person_reads_a_few_lines(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(doctor, "LIBRARIES", ("torch", "no-such-library"))
    monkeypatch.setattr(sys, "argv", ["newfound", "doctor", "--cache", str(tmp_path / "none")])
    assert cli.status() == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("newfound ")
    assert lines[1].startswith(f"libraries: torch {torch.__version__.partition('+')[0]}")
    assert lines[2] == "not installed: no-such-library (none is needed)"
    assert any(line.startswith("for 500 symbolic images: ") for line in lines)
