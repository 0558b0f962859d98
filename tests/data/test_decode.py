"""One image file becomes upright RGB pixels of the size asked for, or a reason why not."""

import errno
import os
import re
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from newfound.data import decode as decode_module
from newfound.data.decode import Unreadable, decode

WHITE, RED, BLUE = (255, 255, 255), (255, 0, 0), (0, 0, 255)


def corners(pixels):
    """The colours of the four corners, in reading order."""
    return [tuple(int(value) for value in pixels[:, y, x]) for y in (0, -1) for x in (0, -1)]


def decoded(image, tmp_path, name="image.png", size=8, **options):
    image.save(tmp_path / name, **options)
    return decode(tmp_path / name, size)


def reason(path, size=8):
    with pytest.raises(Unreadable) as caught:
        decode(path, size)
    assert str(caught.value) == caught.value.reason
    return caught.value.reason


@pytest.mark.parametrize("brand", [b"heic", b"mif1", b"hevx"])
def test_what_a_telephone_writes_is_named(tmp_path, brand):
    (tmp_path / "a.heic").write_bytes(b"\0\0\0\x24ftyp" + brand + b"\0\0\0\0mif1heic" + bytes(100))
    assert reason(tmp_path / "a.heic") == "HEIC: convert to JPEG first"
    (tmp_path / "b.heic").write_bytes(b"\0\0\0\x24ftypisom" + bytes(100))
    assert "unknown format" in reason(tmp_path / "b.heic")


def test_the_formats_that_are_read_are_on_the_page_for_own_folders():
    page = (Path(__file__).parents[2] / "docs" / "usage.md").read_text()
    said = re.search(r"\*\*These formats are read\*\*: (.*?)\. What", page, flags=re.DOTALL)[1]
    said = re.sub(r"\([^)]*\)", "", said).replace("JPEG 2000", "JPEG2000").replace("WebP", "WEBP")
    assert sorted(re.findall(r"[A-Z0-9]{3,}", said)) == sorted(set(decode_module.FORMATS) - {"DIB"})


def png_header(width, height):
    """A PNG file that claims to have this size, and ends there."""
    chunks = [
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(b"")),
        (b"IEND", b""),
    ]
    parts = [
        struct.pack(">I", len(body)) + tag + body + struct.pack(">I", zlib.crc32(tag + body)) for tag, body in chunks
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def four_colours(width, height):
    """An image whose quarters are red, green, blue and white, in reading order."""
    image = Image.new("RGB", (width, height), WHITE)
    image.paste((255, 0, 0), (0, 0, width // 2, height // 2))
    image.paste((0, 255, 0), (width // 2, 0, width, height // 2))
    image.paste((0, 0, 255), (0, height // 2, width // 2, height))
    return image


def test_an_image_of_the_right_size_keeps_every_pixel(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    got = decoded(Image.fromarray(pixels), tmp_path)
    assert got.dtype == np.uint8
    assert got.flags.c_contiguous
    assert (got == pixels.transpose(2, 0, 1)).all()


@pytest.mark.parametrize(("width", "height"), [(17, 8), (8, 17)])
def test_an_oblong_image_keeps_its_centre_square(tmp_path, width, height):
    pixels = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
    top, left = (height - 8) // 2, (width - 8) // 2
    got = decoded(Image.fromarray(pixels), tmp_path)
    assert (got == pixels[top : top + 8, left : left + 8].transpose(2, 0, 1)).all()


def test_shrinking_averages_the_pixels_it_drops(tmp_path):
    board = (np.indices((64, 64)).sum(0) % 2 * 255).astype(np.uint8)
    got = decoded(Image.fromarray(board), tmp_path)
    assert np.abs(got.astype(int) - 127).max() <= 3


def test_a_small_image_is_enlarged(tmp_path):
    got = decoded(Image.new("RGB", (1, 1), (10, 20, 30)), tmp_path, size=5)
    assert got.shape == (3, 5, 5)
    assert (got == np.array([10, 20, 30])[:, None, None]).all()


@pytest.mark.parametrize("shape", [(1, 30_000), (30_000, 1)])
def test_a_very_long_image_takes_no_more_memory_than_its_pixels(tmp_path, shape):
    got = decoded(Image.new("RGB", shape, RED), tmp_path, size=64)
    assert got.shape == (3, 64, 64)
    assert corners(got) == [RED] * 4


@pytest.mark.parametrize("format", ["jpg", "png", "tif", "webp"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_the_exif_orientation_is_applied_once(tmp_path, orientation, format):
    upright = four_colours(48, 32)
    back = {
        1: [], 2: ["FLIP_LEFT_RIGHT"], 3: ["ROTATE_180"], 4: ["FLIP_TOP_BOTTOM"], 5: ["TRANSPOSE"],
        6: ["ROTATE_90"], 7: ["TRANSVERSE"], 8: ["ROTATE_270"],
    }[orientation]  # fmt: skip
    stored = upright
    for turn in back:
        stored = stored.transpose(Image.Transpose[turn])
    exif = Image.Exif()
    exif[0x0112] = orientation
    got = decoded(stored, tmp_path, f"turned.{format}", exif=exif)
    expected = decoded(upright, tmp_path)
    far = np.abs(got.astype(int) - expected.astype(int))
    assert far[:, [0, 0, -1, -1], [0, -1, 0, -1]].max() <= 4


@pytest.mark.filterwarnings("ignore:Corrupt EXIF")
def test_nonsense_in_the_exif_data_does_not_cost_the_image(tmp_path):
    got = decoded(Image.new("RGB", (8, 8), RED), tmp_path, exif=b"Exif\0\0II*\0\xff\xff\xff\xff garbage")
    assert corners(got) == [RED] * 4


def test_transparent_pixels_lie_on_white(tmp_path):
    image = Image.new("RGBA", (8, 8), (255, 0, 0, 255))
    image.paste((0, 0, 0, 0), (0, 0, 4, 8))
    assert corners(decoded(image, tmp_path)) == [WHITE, RED, WHITE, RED]
    half = decoded(Image.new("RGBA", (8, 8), (0, 0, 0, 128)), tmp_path)
    assert np.abs(half.astype(int) - 127).max() <= 1
    grey = decoded(Image.new("LA", (8, 8), (40, 0)), tmp_path)
    assert (grey == 255).all()


@pytest.mark.parametrize("transparency", [None, 0, b"\x00\xff"])
def test_a_palette_is_looked_up_and_its_transparent_colour_is_white(tmp_path, transparency):
    image = Image.new("P", (8, 8), 0)
    image.putpalette([0, 0, 255, 255, 0, 0])
    image.paste(1, (4, 0, 8, 8))
    options = {} if transparency is None else {"transparency": transparency}
    left = BLUE if transparency is None else WHITE
    assert corners(decoded(image, tmp_path, **options)) == [left, RED, left, RED]


def test_a_transparent_colour_of_an_rgb_image_is_white(tmp_path):
    image = Image.new("RGB", (8, 8), RED)
    image.paste(BLUE, (0, 0, 4, 8))
    assert corners(decoded(image, tmp_path, transparency=BLUE)) == [WHITE, RED, WHITE, RED]


def test_grey_and_one_bit_images_have_three_equal_channels(tmp_path):
    assert (decoded(Image.new("L", (8, 8), 77), tmp_path) == 77).all()
    assert (decoded(Image.new("1", (8, 8), 1), tmp_path) == 255).all()


@pytest.mark.parametrize("format", ["jpg", "tif"])
def test_cmyk_is_converted(tmp_path, format):
    got = decoded(Image.new("CMYK", (8, 8), (0, 255, 255, 0)), tmp_path, f"print.{format}")
    assert np.abs(got.astype(int) - np.array(RED)[:, None, None]).max() <= 2


@pytest.mark.parametrize("kind", ["<u2 png", "<u2 tif", ">u2 tif"])
def test_sixteen_bits_are_scaled_and_not_clipped(tmp_path, kind):
    dtype, format = kind.split()
    levels = np.tile(np.array([0, 257, 1000, 25700, 32768, 40000, 65000, 65535]), (8, 1))
    got = decoded(Image.fromarray(levels.astype(dtype)), tmp_path, f"deep.{format}")
    assert (got == np.round(levels / 257)).all()


def test_a_pgm_of_sixteen_bits_is_scaled_too(tmp_path):
    levels = np.tile(np.array([0, 65535, 25700, 0], dtype=">u2"), (4, 1))
    (tmp_path / "deep.pgm").write_bytes(b"P5 4 4 65535\n" + levels.tobytes())
    assert (decode(tmp_path / "deep.pgm", 4) == np.tile([0, 255, 100, 0], (4, 1))).all()


@pytest.mark.parametrize(
    ("levels", "expected"),
    [
        (np.array([0.0, 0.2, 1.0, 0.4], np.float32), [0, 51, 255, 102]),
        (np.array([0.0, 7.0, 100.0, 255.0], np.float32), [0, 7, 100, 255]),
        (np.array([-100.0, 0.0, 900.0, 400.0], np.float32), [0, 26, 255, 128]),
        (np.array([np.nan, 0.0, np.inf, 1000.0], np.float32), [0, 0, 255, 255]),
        (np.array([5000.0, 5000.0, 5000.0, 5000.0], np.float32), [0, 0, 0, 0]),
        (np.array([np.nan, np.nan, np.nan, np.nan], np.float32), [0, 0, 0, 0]),
        (np.array([0, 7, 100, 255], np.int32), [0, 7, 100, 255]),
        (np.array([0, 100_000, 50_000, 20_000], np.int32), [0, 255, 128, 51]),
    ],
)
def test_thirty_two_bits_are_taken_for_a_usual_range_or_stretched(tmp_path, levels, expected):
    got = decoded(Image.fromarray(np.tile(levels, (4, 1))), tmp_path, "deep.tif", size=4)
    assert (got == np.tile(expected, (4, 1))).all()


@pytest.mark.parametrize("format", ["gif", "tif", "webp", "png"])
def test_of_several_frames_the_first_is_taken(tmp_path, format):
    frames = [Image.new("RGB", (8, 8), colour) for colour in (RED, BLUE, WHITE)]
    options = {"lossless": True} if format == "webp" else {}
    got = decoded(frames[0], tmp_path, f"film.{format}", save_all=True, append_images=frames[1:], **options)
    assert corners(got) == [RED] * 4


def test_a_large_jpeg_looks_the_same_as_a_large_png(tmp_path):
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (6, 9, 3), dtype=np.uint8))
    image = image.resize((1201, 801), Image.Resampling.BICUBIC)
    jpeg = decoded(image, tmp_path, "photo.jpg", size=32, quality=95).astype(int)
    assert np.abs(jpeg - decoded(image, tmp_path, size=32)).mean() < 1.5


@pytest.mark.parametrize("format", ["jpg", "png", "gif", "tif", "bmp"])
@pytest.mark.parametrize("share", [0.9, 0.5])
def test_a_truncated_image_is_called_so(tmp_path, format, share):
    pixels = np.random.default_rng(0).integers(0, 256, (60, 40, 3), dtype=np.uint8)
    path = tmp_path / f"cut.{format}"
    Image.fromarray(pixels).save(path)
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])
    assert reason(path) == "truncated image"


def test_damage_in_the_middle_is_a_reason_on_one_line(tmp_path):
    path = tmp_path / "damaged.webp"
    Image.new("RGB", (60, 40)).save(path)
    path.write_bytes(path.read_bytes()[:30] + b"\xff" * 10)
    assert reason(path).startswith("cannot be decoded: ")
    assert "\n" not in reason(path)


def test_files_that_are_no_images_are_called_so(tmp_path):
    (tmp_path / "empty.png").touch()
    (tmp_path / "text.png").write_text("not a picture at all, although it is called one")
    assert reason(tmp_path / "empty.png") == "empty file (0 bytes)"
    assert reason(tmp_path / "text.png").startswith("not an image")
    assert reason(tmp_path / "missing.png") == "no such file"
    assert reason(f"{tmp_path}/nul\0.png") == "no such file"
    assert reason(tmp_path) == "a folder, not an image"


def test_postscript_is_not_executed(tmp_path):
    Image.new("RGB", (8, 8)).save(tmp_path / "drawing.eps")
    assert reason(tmp_path / "drawing.eps").startswith("not an image")


def test_a_decompression_bomb_is_refused_before_it_goes_off(tmp_path):
    (tmp_path / "bomb.png").write_bytes(png_header(20_000, 20_000))
    assert reason(tmp_path / "bomb.png") == "decompression bomb: 400,000,000 pixels"


@pytest.mark.timeout(20)
def test_a_fifo_is_refused_without_waiting_for_it(tmp_path):
    os.mkfifo(tmp_path / "pipe.png")
    assert reason(tmp_path / "pipe.png") == "not a regular file (a FIFO)"
    assert reason("/dev/null") == "not a regular file (a socket or device)"


def test_links_are_followed_and_broken_ones_named(tmp_path):
    Image.new("RGB", (8, 8), RED).save(tmp_path / "there.png")
    (tmp_path / "good.png").symlink_to("there.png")
    (tmp_path / "broken.png").symlink_to("nowhere.png")
    (tmp_path / "itself.png").symlink_to("itself.png")
    assert corners(decode(tmp_path / "good.png", 4)) == [RED] * 4
    assert reason(tmp_path / "broken.png") == "broken link"
    assert reason(tmp_path / "itself.png") == "broken link"


def test_a_file_one_may_not_open_is_called_so(tmp_path, monkeypatch):
    Image.new("RGB", (8, 8)).save(tmp_path / "secret.png")

    def refuse(*_):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(decode_module, "open", refuse, raising=False)
    assert reason(tmp_path / "secret.png") == "permission denied"


def test_running_out_of_memory_is_a_reason_too(tmp_path, monkeypatch):
    Image.new("RGB", (8, 8)).save(tmp_path / "large.png")

    def refuse(*_):
        raise MemoryError

    monkeypatch.setattr(decode_module, "_rgb", refuse)
    assert reason(tmp_path / "large.png") == "too large for the memory"


def test_a_large_image_takes_its_turn_and_gives_it_back(tmp_path, monkeypatch):
    Image.new("RGB", (9, 9)).save(tmp_path / "large.png")
    held = []
    plain = decode_module._rgb
    monkeypatch.setattr(
        decode_module, "_rgb", lambda image: held.append(decode_module._turns._taken > 0) or plain(image)
    )
    decode(tmp_path / "large.png", 8)
    monkeypatch.setattr(decode_module, "LARGE", 80)
    decode(tmp_path / "large.png", 8)
    assert held == [False, True]
    assert decode_module._turns._taken == 0


def test_nothing_is_printed_about_what_pillow_warns_of(tmp_path):
    Image.new("RGB", (15, 10)).save(tmp_path / "large.png")
    (tmp_path / "text.png").write_text("no image")
    program = (
        "import sys; from newfound.data.decode import Unreadable, decode; from PIL import Image\n"
        "Image.MAX_IMAGE_PIXELS = 100\n"
        "print(decode(sys.argv[1], 4).shape)\n"
        "try: decode(sys.argv[2], 4)\n"
        "except Unreadable: print('refused')\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "default", "-c", program, tmp_path / "large.png", tmp_path / "text.png"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.split("\n") == ["(3, 4, 4)", "refused", ""]
    assert done.stderr == ""
