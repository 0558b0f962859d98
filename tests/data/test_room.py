"""Images that would take more memory than there is are left out, with a reason."""

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from newfound import memory
from newfound.data import decode as decoding
from newfound.data.decode import Unreadable, decode
from newfound.errors import UserError
from newfound.memory import require_memory


def write_bomb(path, side=13_000, rows=100):
    """A float TIFF of 6 kB whose strips are all the same one."""
    strip = zlib.compress(bytes(side * 4 * rows), 9)
    n = -(-side // rows)
    offsets = 8 + 2 + 10 * 12 + 4
    body = offsets + 8 * n
    entries = [(256, 4, 1, side), (257, 4, 1, side), (258, 3, 1, 32), (259, 3, 1, 8), (262, 3, 1, 1)]
    entries += [(273, 4, n, offsets), (277, 3, 1, 1), (278, 4, 1, rows), (279, 4, n, offsets + 4 * n), (339, 3, 1, 3)]
    content = b"II*\0" + struct.pack("<IH", 8, len(entries))
    content += b"".join(struct.pack("<HHII", *entry) for entry in entries) + struct.pack("<I", 0)
    content += struct.pack(f"<{n}I", *[body] * n) + struct.pack(f"<{n}I", *[len(strip)] * n) + strip
    path.write_bytes(content)


def test_a_small_file_that_becomes_an_enormous_image_is_not_decoded(tmp_path):
    write_bomb(tmp_path / "bomb.tif")
    assert (tmp_path / "bomb.tif").stat().st_size < 7000
    with pytest.raises(Unreadable, match=r"decompression bomb: [\d,]+ bytes become 676 MB"):
        decode(tmp_path / "bomb.tif", 32)


def test_an_image_too_large_for_the_free_memory_says_so(tmp_path, monkeypatch):
    Image.new("L", (6000, 6000)).save(tmp_path / "large.png")
    monkeypatch.setattr(decoding, "free_memory", lambda: 10**8)
    with pytest.raises(Unreadable, match="too large for the memory: decoding takes 216 MB, and 100 MB are free"):
        decode(tmp_path / "large.png", 32)


def icon(picture):
    """An icon that says of any picture that it has 16 x 16 pixels."""
    file = io.BytesIO()
    picture.save(file, "PNG")
    content = file.getvalue()
    return struct.pack("<HHHBBBBHHII", 0, 1, 1, 16, 16, 0, 0, 1, 32, len(content), 22) + content


def test_an_icon_is_as_large_as_the_picture_in_it(tmp_path, monkeypatch):
    small = Image.fromarray(np.random.default_rng(0).integers(0, 255, (16, 16, 3), dtype=np.uint8))
    (tmp_path / "small.ico").write_bytes(icon(small))
    assert np.array_equal(decode(tmp_path / "small.ico", 16), np.asarray(small).transpose(2, 0, 1))
    (tmp_path / "large.ico").write_bytes(icon(Image.new("RGBA", (4000, 4000))))
    monkeypatch.setattr(decoding, "free_memory", lambda: 10**8)
    with pytest.raises(Unreadable, match="too large for the memory"):
        decode(tmp_path / "large.ico", 16)


@pytest.mark.parametrize("pixels", [1, 5_000, 2**20])
def test_levels_in_strips_are_those_of_the_whole(tmp_path, monkeypatch, pixels):
    monkeypatch.setattr(decoding, "STRIP", pixels)
    levels = np.random.default_rng(0).normal(size=(700, 700)).astype(np.float32)
    levels[3, 4] = np.nan
    Image.fromarray(levels).save(tmp_path / "levels.tif")
    whole = levels.astype(np.float64)
    low, high = np.nanmin(whole), np.nanmax(whole)
    expected = np.round((np.nan_to_num(whole, nan=low) - low) * (255 / (high - low))).astype(np.uint8)
    assert np.array_equal(decode(tmp_path / "levels.tif", 700)[0], expected)


def test_what_is_too_much_for_the_memory_is_a_sentence(monkeypatch):
    monkeypatch.setattr("newfound.memory.free_memory", lambda: 10**9)
    require_memory(7 * 10**8, "it")
    with pytest.raises(UserError, match=r"it takes 900 MB of memory, and 1.0 GB are free"):
        require_memory(9 * 10**8, "it")


@pytest.mark.parametrize(
    ("line", "folder", "limit", "usage", "total"),
    [
        ("0::/job", "job", "memory.max", "memory.current", ""),
        ("4:memory:/job", "memory/job", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_"),
    ],
)
def test_caches_of_files_are_free_to_a_control_group(tmp_path, monkeypatch, line, folder, limit, usage, total):
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "cgroup").write_text(f"{line}\n")
    (tmp_path / folder).mkdir(parents=True)
    fields = f"anon 200\n{total}inactive_file 200\n{total}active_file 500\n"
    for name, content in {limit: "1000", usage: "900", "memory.stat": fields}.items():
        (tmp_path / folder / name).write_text(content)
    monkeypatch.setattr(memory, "PROC", tmp_path)
    monkeypatch.setattr(memory, "CGROUP", tmp_path)
    assert list(memory._of_groups()) == [800]
