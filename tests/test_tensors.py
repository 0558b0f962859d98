"""Files of tensors are what the library reads, with a checksum."""

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save_file

from newfound.tensors import CHECKSUM, TYPES, Rotten, checksum, pack, pieces, read_tensors


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


OTHERS = [
    torch.uint16, torch.uint32, torch.uint64, torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e5m2,
    torch.float8_e5m2fnuz, torch.float8_e8m0fnu,
]  # fmt: skip


@pytest.mark.parametrize("kind", [*TYPES, *OTHERS])
def test_types_that_others_write_are_read_with_their_checksum(tmp_path, kind):
    value = torch.tensor([0.5, 1.0, 2.0, 4.0]).to(kind)
    save_file({"a": value}, tmp_path / "file", metadata={CHECKSUM: checksum({"a": value})})
    found = read_tensors(tmp_path / "file", checked=True)["a"]
    assert found.dtype == kind
    assert torch.equal(found.float(), value.float())


@pytest.mark.parametrize(
    ("kind", "told"), [("C64", "complex64"), ("F4", "float4_e2m1fn_x2"), ("F6_E2M3", "F6_E2M3"), ("I4", "I4")]
)
def test_types_whose_numbers_are_of_no_use_are_named(tmp_path, kind, told):
    n = {"C64": 64, "F6_E2M3": 6}.get(kind, 4)
    header = b'{"a.b":{"dtype":"%s","shape":[8],"data_offsets":[0,%d]}}' % (kind.encode(), n)
    (tmp_path / "file").write_bytes(len(header).to_bytes(8, "little") + header + bytes(n))
    with pytest.raises(SafetensorError, match=told):
        read_tensors(tmp_path / "file")
