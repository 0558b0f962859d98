import json
import os

import pytest
import torch
from safetensors.torch import save_file

from newfound.engine.checkpoint import Checkpoints
from newfound.errors import UserError
from newfound.progress import Reporter


@pytest.fixture
def checkpoints(tmp_path):
    return Checkpoints(tmp_path / "checkpoint", Reporter(quiet=True))


def save(checkpoints, step, last=False):
    checkpoints.save("stage1", step, {"weight": torch.full((4,), float(step))}, {"summed": step}, last=last)


def names(checkpoints):
    return sorted(p.name for p in checkpoints.folder.iterdir())


def test_a_checkpoint_comes_back_as_it_was_saved(checkpoints):
    tensors = {"a": torch.randn(3, 4), "state": torch.arange(5, dtype=torch.uint8), "t": torch.tensor(7)}
    checkpoints.save("stage1", 12, tensors, {"seconds": 1.5}, last=False)
    found = checkpoints.latest("stage1")
    assert found.step == 12
    assert found.state["seconds"] == 1.5
    assert all(torch.equal(found.tensors[k], v) for k, v in tensors.items())


def test_the_previous_checkpoint_is_kept_and_older_ones_go(checkpoints):
    for step in (5, 10, 15):
        save(checkpoints, step)
    assert names(checkpoints) == ["stage1-000000010", "stage1-000000015"]


def test_of_a_finished_stage_only_the_last_checkpoint_stays(checkpoints):
    for step in (5, 10, 15):
        save(checkpoints, step, last=step == 15)
    assert names(checkpoints) == ["stage1-000000015"]


def test_stages_do_not_see_each_others_checkpoints(checkpoints):
    save(checkpoints, 5)
    assert checkpoints.latest("stage2") is None
    assert checkpoints.latest("stage") is None


def test_a_disk_that_fills_half_way_leaves_the_previous_checkpoint(checkpoints, disk):
    save(checkpoints, 5)
    with disk(room=40), pytest.raises(OSError, match="too large"):
        save(checkpoints, 10)
    assert names(checkpoints) == ["stage1-000000005"]
    assert checkpoints.latest("stage1").step == 5


def test_a_stage_that_begins_anew_voids_those_after_it(checkpoints):
    save(checkpoints, 5)
    checkpoints.save("stage2", 3, {"weight": torch.zeros(1)}, {}, last=False)
    checkpoints.forget_others(["stage1"])
    assert names(checkpoints) == ["stage1-000000005"]


DAMAGED = {
    "truncated": lambda content: content[:-3],
    "empty": lambda content: b"",
    "garbage": lambda content: b"\xff" * len(content),
    "other JSON": lambda content: b"[]",
}


@pytest.mark.parametrize("file", ["tensors.safetensors", "state.json"])
@pytest.mark.parametrize("damage", ["truncated", "empty", "missing", "garbage", "other JSON"])
def test_a_damaged_checkpoint_is_passed_over_with_a_warning(checkpoints, capsys, file, damage):
    save(checkpoints, 5)
    save(checkpoints, 10)
    path = checkpoints.folder / "stage1-000000010" / file
    content = path.read_bytes()
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(DAMAGED[damage](content))
    assert checkpoints.latest("stage1").step == 5
    assert "stage1-000000010 cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize("file", ["tensors.safetensors", "state.json"])
def test_a_checkpoint_of_which_any_byte_has_changed_is_passed_over_or_says_the_same(checkpoints, capsys, file):
    """A space more or less in a header changes nothing; everything else is seen."""
    save(checkpoints, 5)
    save(checkpoints, 10)
    path = checkpoints.folder / "stage1-000000010" / file
    content = path.read_bytes()
    before = checkpoints.latest("stage1")
    passed = 0
    for place in range(len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        found = checkpoints.latest("stage1")
        if found.step == 5:
            passed += 1
        else:
            assert (found.step, found.state) == (before.step, before.state)
            assert torch.equal(found.tensors["weight"], before.tensors["weight"])
    assert passed > 0.8 * len(content)
    assert "going back" in capsys.readouterr().err


def test_a_checkpoint_from_before_there_were_checksums_is_read(checkpoints):
    save(checkpoints, 5)
    folder = checkpoints.folder / "stage1-000000005"
    save_file({"weight": torch.ones(4)}, folder / "tensors.safetensors")
    size = (folder / "tensors.safetensors").stat().st_size
    (folder / "state.json").write_text(json.dumps({"format": 1, "stage": "stage1", "step": 5, "bytes": size}))
    assert torch.equal(checkpoints.latest("stage1").tensors["weight"], torch.ones(4))


def test_a_checkpoint_that_is_a_fifo_or_nested_without_end_is_passed_over(checkpoints, capsys):
    for step, damage in ((5, None), (10, "fifo"), (15, "nested")):
        save(checkpoints, step)
        path = checkpoints.folder / f"stage1-{step:09d}" / "state.json"
        if damage == "fifo":
            path.unlink()
            os.mkfifo(path)
        if damage == "nested":
            path.write_text("[" * 200_000)
    assert checkpoints.latest("stage1") is None
    assert capsys.readouterr().err.count("cannot be read") == 2


def test_what_a_killed_process_left_half_written_is_ignored_and_then_removed(checkpoints):
    save(checkpoints, 5)
    (checkpoints.folder / ".stage1-000000010.0077abcd.writing").mkdir()
    assert checkpoints.latest("stage1").step == 5
    save(checkpoints, 10)
    assert names(checkpoints) == ["stage1-000000005", "stage1-000000010"]


def test_what_is_not_a_checkpoint_is_neither_read_nor_removed(checkpoints, tmp_path):
    save(checkpoints, 5)
    others = Checkpoints(tmp_path / "others", Reporter(quiet=True))
    save(others, 9)
    elsewhere = others.folder / "stage1-000000009"
    before = sorted(elsewhere.iterdir())
    mine = [".photographs.0077abcd.writing", ".stage1-000000010.77.writing", "photographs", "stage2-3"]
    for name in mine:
        (checkpoints.folder / name).mkdir()
    links = [".stage1-000000010.0077abcd.writing", "stage1-000000009", "stage2-000000003"]
    for name in links:
        (checkpoints.folder / name).symlink_to(elsewhere)
    assert checkpoints.latest("stage1").step == 5
    save(checkpoints, 10, last=True)
    checkpoints.forget_others(["stage1"])
    assert names(checkpoints) == sorted(["stage1-000000010", *mine, *links])
    assert sorted(elsewhere.iterdir()) == before


def test_a_checkpoint_of_a_newer_version_says_so(checkpoints):
    save(checkpoints, 5)
    path = checkpoints.folder / "stage1-000000005" / "state.json"
    path.write_text(json.dumps({"format": 3}))
    with pytest.raises(UserError, match="newer version"):
        checkpoints.latest("stage1")
