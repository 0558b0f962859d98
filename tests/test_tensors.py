"""Files of tensors are what the library reads, with a checksum."""

import pytest
import torch
from safetensors.torch import load

from newfound.tensors import TYPES, Rotten, pack, pieces, read_tensors


def some():
    torch.manual_seed(0)
    found = {f"{place}.{kind}": (torch.randn(3, 5) * 9).to(kind) for place, kind in enumerate(TYPES)}
    found |= {"a number": torch.tensor(3.5), "nothing": torch.zeros(0, 4), "é": torch.arange(7)}
    return found | {"turned": torch.randn(4, 6).T, "zzz": torch.ones(1, dtype=torch.bool)}


def test_the_library_reads_what_is_written():
    assert b"".join(pieces(some())) == pack(some())
    found = load(pack(some()))
    assert found.keys() == some().keys()
    for name, value in some().items():
        assert found[name].dtype == value.dtype
        assert torch.equal(found[name], value), name


def test_no_tensor_on_the_cpu_is_copied():
    value = torch.zeros(1000)
    content = pieces({"a": value})[-1]
    value[0] = 1
    assert bytes(content[:4]) == b"\x00\x00\x80\x3f"


def test_a_byte_that_has_changed_is_noticed(tmp_path):
    content = pack(some())
    (tmp_path / "file").write_bytes(content)
    assert read_tensors(tmp_path / "file", checked=True).keys() == some().keys()
    (tmp_path / "file").write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(Rotten):
        read_tensors(tmp_path / "file")
