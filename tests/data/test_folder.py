"""Two folders of images become a Collection; what cannot be used is skipped with its reason, or stops the reading."""

import io
import os
import random
import re
import shutil
import struct
import sys
import zlib
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from newfound.data.alike import warn_of_like_names
from newfound.data.folder import list_images, read_folders
from newfound.errors import UserError
from newfound.progress import Reporter

RED, GREEN, BLUE, WHITE, GREY = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255), (100, 100, 100)
KNOWN = (250, 9, 9), (9, 250, 9), (9, 9, 250)
NOT_UTF8 = os.fsdecode(b"caf\xe9") if sys.platform != "darwin" else "café"  # macOS has no such names
NOISE = np.random.default_rng(0).integers(0, 256, (40, 60, 3), dtype=np.uint8)


def save(path, colour=RED, size=(12, 8), **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).save(path, **options)


@pytest.fixture
def known(tmp_path):
    """Two categories, of two images and of one."""
    save(tmp_path / "known" / "cat" / "a.png", KNOWN[0])
    save(tmp_path / "known" / "cat" / "far" / "below" / "b.png", KNOWN[1])
    save(tmp_path / "known" / "dog" / "c.png", KNOWN[2])
    return tmp_path / "known"


@pytest.fixture
def pile(tmp_path):
    """Twenty images of different greys, two folders deep."""
    for i in range(20):
        save(tmp_path / "pile" / f"shelf{i % 3}" / f"{i:02d}.png", (i, i, i))
    return tmp_path / "pile"


def read(known, pile, **options):
    return read_folders(known, pile, **{"n_novel": 2, "size": 8, "seed": 0, "workers": 2} | options)


def refusal(known, pile, **options):
    """The sentence that says why these folders cannot be read: one line."""
    with pytest.raises(UserError) as caught:
        read(known, pile, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def reasons_of(reading):
    return {skip.file: skip.reason for skip in reading.skipped}


def table(path, *lines, header="image,label"):
    path.write_text("\n".join([header, *lines]) + "\n")
    return path


def test_categories_are_folders_and_the_names_are_relative_paths(known, pile):
    reading = read(known, pile)
    assert reading.collection.classes == ("cat", "dog")
    assert reading.collection.labels[:3].tolist() == [0, 0, 1]
    assert reading.names.labelled == ("cat/a.png", "cat/far/below/b.png", "dog/c.png")
    assert sorted(reading.names.unlabelled) == sorted(f"shelf{i % 3}/{i:02d}.png" for i in range(20))
    assert reading.collection.train.shape == (3, 8, 8)
    assert reading.skipped == ()
    assert reading.answers is None


def test_each_row_of_the_collection_is_the_image_of_its_name(known, pile):
    reading = read(known, pile)
    images = reading.collection.train.images
    assert [tuple(image[:, 0, 0].tolist()) for image in images[:3]] == list(KNOWN)
    for name, image in zip(reading.names.unlabelled, images[3:], strict=True):
        assert image.unique().tolist() == [int(Path(name).stem)]


def test_the_pile_is_one_task_with_the_number_asked_for(known, pile):
    (task,) = read(known, pile, n_novel=7).collection.tasks
    assert (task.name, len(task.candidates), task.rows.tolist()) == ("", 7, list(range(3, 23)))
    assert "cannot find 21 novel categories among the 20 unlabelled images" in refusal(known, pile, n_novel=21)


def test_the_order_of_the_pile_depends_on_the_seed_alone(known, pile):
    first, again, other = (read(known, pile, seed=seed).names.unlabelled for seed in (0, 0, 1))
    assert first == again
    assert first != other
    assert sorted(first) == sorted(other)
    assert first != tuple(sorted(first))


def test_the_number_of_workers_changes_nothing(known, pile):
    (pile / "text.png").write_text("no image")
    one, four = read(known, pile, workers=1), read(known, pile, workers=4)
    assert one.collection.fingerprint() == four.collection.fingerprint()
    assert (one.names, one.skipped) == (four.names, four.skipped)


class _ShuffledFolder:
    """What os.scandir gives, in another order."""

    plain = staticmethod(os.scandir)

    def __init__(self, path, order):
        with self.plain(path) as entries:
            self.entries = list(entries)
        order.shuffle(self.entries)

    def __enter__(self):
        return iter(self.entries)

    def __exit__(self, *_):
        pass


def test_the_order_in_which_the_system_lists_files_changes_nothing(known, pile, monkeypatch):
    (pile / "a-link").symlink_to("shelf1")
    (pile / "shelf2" / "out").symlink_to(pile.parent / "elsewhere")
    (pile / "shelf0" / "also-out").symlink_to(pile.parent / "elsewhere")
    save(pile.parent / "elsewhere" / "x.png")
    expected = read(known, pile)
    assert "shelf0/also-out/x.png" in expected.names.unlabelled
    for seed in range(5):
        order = random.Random(seed)
        monkeypatch.setattr(os, "scandir", lambda path, order=order: _ShuffledFolder(path, order))
        assert read(known, pile).names == expected.names
        assert read(known, pile).collection.fingerprint() == expected.collection.fingerprint()


def test_files_are_in_the_order_of_code_points(tmp_path):
    for name in ("b/a.png", "b.png", "C.png", "a/z.png", "a-/y.png", "é.png", "10.png", "9.png"):
        save(tmp_path / name)
    names = [path.relative_to(tmp_path).as_posix() for path in list_images(tmp_path)]
    assert names == ["10.png", "9.png", "C.png", "a-/y.png", "a/z.png", "b.png", "b/a.png", "é.png"]


def turned_jpeg(path):
    """Upright it is red above blue; stored it lies on its side, and EXIF says so."""
    image = Image.new("RGB", (16, 16), RED)
    image.paste(BLUE, (0, 8, 16, 16))
    exif = Image.Exif()
    exif[0x0112] = 6
    image.transpose(Image.Transpose.ROTATE_90).save(path, exif=exif, quality=95)


def palette(path, **options):
    image = Image.new("P", (12, 8), 1)
    image.putpalette([0, 0, 255, 0, 255, 0])
    image.save(path, **options)


def cut(path, **options):
    Image.fromarray(NOISE).save(path, **options)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def bomb(path):
    """A PNG file of a few bytes that claims to have 60,000 x 60,000 pixels."""
    header = b"IHDR" + struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    pixels = b"IDAT" + zlib.compress(b"")
    chunks = [
        struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", zlib.crc32(chunk)) for chunk in (header, pixels)
    ]
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(chunks))


def film(path):
    frames = [Image.new("RGB", (12, 8), colour) for colour in (GREEN, RED)]
    frames[0].save(path, save_all=True, append_images=frames[1:])


READABLE = {
    "turned.jpg": (turned_jpeg, RED, BLUE),
    "palette.png": (palette, GREEN),
    "palette-transparent.png": (lambda path: palette(path, transparency=1), WHITE),
    "palette-bytes.png": (lambda path: palette(path, transparency=b"\xff\x00"), WHITE),
    "rgba.png": (lambda path: Image.new("RGBA", (9, 9), (0, 0, 0, 0)).save(path), WHITE),
    "la.png": (lambda path: Image.new("LA", (9, 9), (100, 255)).save(path), GREY),
    "grey.jpg": (lambda path: Image.new("L", (9, 9), 100).save(path), GREY),
    "one-bit.png": (lambda path: Image.new("1", (9, 9), 1).save(path), WHITE),
    "cmyk.jpg": (lambda path: Image.new("CMYK", (9, 9), (255, 0, 255, 0)).save(path), GREEN),
    "16.png": (lambda path: Image.fromarray(np.full((9, 9), 25_700, np.uint16)).save(path), GREY),
    "16.tif": (lambda path: Image.fromarray(np.full((9, 9), 25_700, np.uint16)).save(path), GREY),
    "16-big-endian.tif": (lambda path: Image.fromarray(np.full((9, 9), 25_700, ">u2")).save(path), GREY),
    "float.tif": (lambda path: Image.fromarray(np.full((9, 9), 100 / 255, np.float32)).save(path), GREY),
    "film.gif": (film, GREEN),
    "UPPER.PNG": (lambda path: save(path, RED), RED),
    "really-a-png.jpg": (lambda path: save(path, RED, format="PNG"), RED),
    "no-extension": (lambda path: save(path, RED, format="PNG"), RED),
    "odd.text": (lambda path: save(path, RED, format="JPEG"), RED),
    f"{NOT_UTF8}.png": (lambda path: save(path, RED, format="PNG"), RED),
    "鳥/птица.png": (lambda path: save(path, RED), RED),
    'new\nline, "quote".png': (lambda path: save(path, RED), RED),
    " leading and trailing .png ": (lambda path: save(path, RED, format="PNG"), RED),
    "/".join(["deep"] * 120) + "/x.png": (lambda path: save(path, RED), RED),
    "folder.jpg/inside.png": (lambda path: save(path, RED), RED),
    "1x1.png": (lambda path: save(path, RED, size=(1, 1)), RED),
    "tall.png": (lambda path: save(path, RED, size=(1, 9_000)), RED),
    "wide.png": (lambda path: save(path, RED, size=(9_000, 2)), RED),
}

UNREADABLE = {
    "cut.jpg": (cut, "truncated image"),
    "cut.png": (cut, "truncated image"),
    "empty.png": (Path.touch, "empty file (0 bytes)"),
    "text.png": (
        lambda path: path.write_text("a text"),
        "not an image, or damaged at its start, or of an unknown format",
    ),
    "bomb.png": (bomb, "decompression bomb: 3,600,000,000 pixels"),
    "pipe.png": (os.mkfifo, "not a regular file (a FIFO)"),
    "broken.png": (lambda path: path.symlink_to("nowhere"), "broken link"),
    "itself.png": (lambda path: path.symlink_to("itself.png"), "broken link"),
    "device.png": (lambda path: path.symlink_to("/dev/zero"), "not a regular file (a socket or device)"),
}

IGNORED = {
    ".hidden.png": lambda path: save(path, RED),
    ".hidden/inside.png": lambda path: save(path, RED),
    "loop": lambda path: path.symlink_to(".", target_is_directory=True),
    "deep/loop-to-the-top": lambda path: path.symlink_to("..", target_is_directory=True),
    "again": lambda path: path.symlink_to("folder.jpg", target_is_directory=True),
    "empty-folder": Path.mkdir,
}


def close_to(got, colour):
    return all(abs(int(value) - wanted) <= 4 for value, wanted in zip(got, colour, strict=True))


@pytest.mark.timeout(60)
def test_every_odd_file_comes_out_as_it_should_or_is_skipped_with_its_reason(known, tmp_path):
    pile = tmp_path / "pile"
    pile.mkdir()
    makers = {name: expected[0] for name, expected in (READABLE | UNREADABLE).items()} | IGNORED
    for name, make in makers.items():
        (pile / name).parent.mkdir(parents=True, exist_ok=True)
        make(pile / name)

    reading = read(known, pile)

    images = dict(zip(reading.names.unlabelled, reading.collection.train.images[3:], strict=True))
    assert sorted(images) == sorted(READABLE)
    for name, (_, top, *bottom) in READABLE.items():
        assert close_to(images[name][:, 0, 0], top), name
        assert close_to(images[name][:, -1, -1], bottom[0] if bottom else top), name
    assert reasons_of(reading) == {str(pile / name): reason for name, (_, reason) in UNREADABLE.items()}


def test_bad_files_among_the_labelled_ones_are_skipped_too(known, pile):
    (known / "cat" / "text.png").write_text("no image")
    (known / "readme.txt").write_text("about these images")
    save(known / "loose.png")
    reading = read(known, pile)
    assert reading.collection.labels[:4].tolist() == [0, 0, 1, -1]
    assert reasons_of(reading) == {
        str(known / "cat" / "text.png"): "not an image, or damaged at its start, or of an unknown format",
        str(known / "loose.png"): "not in a category folder",
        str(known / "readme.txt"): "not in a category folder",
    }


def test_a_category_may_be_a_link_and_its_name_anything(known, pile, tmp_path):
    save(tmp_path / "store" / "x.png", WHITE)
    (known / NOT_UTF8).symlink_to(tmp_path / "store")
    reading = read(known, pile)
    assert reading.collection.classes == (NOT_UTF8, "cat", "dog")
    assert reading.names.labelled[0] == f"{NOT_UTF8}/x.png"
    assert len(reading.collection.fingerprint()) == 32


def test_a_folder_keeps_its_own_name_where_a_link_leads_to_it_as_well(known, pile):
    (known / "cat" / "a-link").symlink_to("../dog")
    assert read(known, pile).names.labelled == ("cat/a.png", "cat/far/below/b.png", "dog/c.png")


def test_a_folder_that_may_not_be_opened_is_skipped(known, pile, monkeypatch):
    plain, locked = os.scandir, str(pile / "shelf1")

    def scandir(path):
        if str(path) == locked:
            raise PermissionError
        return plain(path)

    monkeypatch.setattr(os, "scandir", scandir)
    monkeypatch.setattr(os, "access", lambda path, mode: str(path) != locked)
    reading = read(known, pile)
    assert reasons_of(reading) == {locked: "a folder that may not be opened"}
    assert reading.collection.n_unlabelled == 13


def test_the_progress_counts_every_file(known, pile):
    (pile / "text.png").write_text("no image")
    stream = io.StringIO()
    read(known, pile, reporter=Reporter(stream=stream))
    assert stream.getvalue().startswith("reading images: 24/24 images")


def test_names_of_categories_that_are_nearly_the_same_are_warned_of(known, pile):
    def warned(*names):
        stream = io.StringIO()
        warn_of_like_names(names, Reporter(quiet=True, stream=stream))
        return re.findall("such as (.*):", stream.getvalue())

    assert warned("Bear", "bear", "ape") == ["'Bear' and 'bear'"]
    assert warned("ape", "Bear ", None, " Bear ", "Bear") == ["'Bear ' and ' Bear ' and 'Bear'"]
    assert warned("caf\u00e9", "cafe\u0301") == ["'caf\u00e9' and 'cafe\u0301'"]
    assert warned("Bear", "Bear", "Bears", "B ear") == []

    stream = io.StringIO()
    first = min(path.name for path in known.iterdir())
    shutil.copytree(known / first, known / first.upper())
    read(known, pile, reporter=Reporter(stream=stream))
    assert f"{first.upper()!r} and {first!r}" in stream.getvalue()


# A table of labels


def test_a_table_labels_a_tree_of_any_shape(known, pile):
    labels = table(known / "labels.csv", "dog/c.png,bird", "./cat//a.png,fish", "cat/a.png, fish ")
    reading = read(known, pile, labels=labels)
    assert reading.names.labelled == ("cat/a.png", "dog/c.png")
    assert reading.collection.classes == ("bird", "fish")
    assert reading.collection.labels[:2].tolist() == [1, 0]
    assert reasons_of(reading) == {str(known / "cat" / "far" / "below" / "b.png"): "not in labels.csv"}


def test_a_table_may_lie_elsewhere_and_list_hidden_and_oddly_named_files(known, pile, tmp_path):
    odd = f"{NOT_UTF8}.png"
    for name in (".hidden.png", odd, 'new\nline, "quote".png'):
        save(known / name, format="PNG")
    rows = ["image,label", ".hidden.png,x", f"{odd},x", '"new\nline, ""quote"".png",y']
    (tmp_path / "t.csv").write_bytes(os.fsencode("\n".join(rows)))
    reading = read(known, pile, labels=tmp_path / "t.csv")
    assert reading.names.labelled == (".hidden.png", odd, 'new\nline, "quote".png')
    assert Counter(skip.reason for skip in reading.skipped) == {"not in t.csv": 3}


def test_files_of_a_table_that_are_missing_or_damaged_are_skipped(known, pile):
    (known / "text.png").write_text("no image")
    labels = table(known / "labels.csv", "cat/a.png,x", "gone.png,x", "text.png,x", "dog,x", "nul\0.png,x")
    reasons = reasons_of(read(known, pile, labels=labels))
    assert reasons[str(known / "gone.png")] == "no such file"
    assert reasons[str(known / "text.png")].startswith("not an image")
    assert reasons[str(known / "dog")] == "a folder, not an image"
    assert reasons[str(known / "nul\0.png")] == "no such file"


@pytest.mark.parametrize("text", ["nan", "-1", "None", "NA", "<NA>"])
def test_a_table_with_a_label_that_looks_unknown_is_refused(known, pile, text):
    """As programs write where they have none: it would become a category."""
    labels = table(known / "labels.csv", "cat/a.png,x", f"dog/c.png,{text}")
    assert f"{str(labels)!r}, line 3: the label {text!r} looks like one that is unknown" in refusal(
        known, pile, labels=labels
    )


@pytest.mark.parametrize("path", ["/etc/a.png", "../a.png", "cat/../../a.png"])
def test_a_table_that_leads_out_of_the_folder_is_refused(known, pile, path):
    labels = table(known / "labels.csv", "cat/a.png,x", f"{path},x")
    message = refusal(known, pile, labels=labels)
    assert f"{str(labels)!r}, line 3" in message
    assert "leads out of" in message


def test_a_table_with_an_empty_label_or_two_labels_for_an_image_is_refused(known, pile):
    labels = table(known / "labels.csv", "cat/a.png,x", "dog/c.png, ")
    assert f"{str(labels)!r}, line 3: image 'dog/c.png' has no label" in refusal(known, pile, labels=labels)
    labels = table(known / "labels.csv", "cat/a.png,x", "", "./cat/a.png,y")
    message = refusal(known, pile, labels=labels)
    assert f"{str(labels)!r}, line 4" in message
    assert "on line 2" in message


def test_a_table_without_header_or_images_is_refused(known, pile):
    labels = table(known / "labels.csv", "cat/a.png,x", header="dog/c.png,y")
    assert "line 1: expected the header image,label but found 'dog/c.png,y'" in refusal(known, pile, labels=labels)
    assert "lists no image" in refusal(known, pile, labels=table(known / "labels.csv"))
    assert "cannot be read: no such file" in refusal(known, pile, labels=known / "missing.csv")


def test_a_category_of_a_table_without_a_readable_image_is_refused(known, pile):
    labels = table(known / "labels.csv", "cat/a.png,x", "gone.png,y", "lost.png,y")
    message = refusal(known, pile, labels=labels)
    assert "category 'y'" in message
    assert "2 files" in message
    assert "no such file" in message


# What stops the reading


def test_a_folder_that_is_missing_or_no_folder_is_refused(known, pile, tmp_path):
    (tmp_path / "file").touch()
    assert f"labelled images, {str(tmp_path / 'none')!r}, does not exist" in refusal(tmp_path / "none", pile)
    assert f"unlabelled images, {str(tmp_path / 'file')!r}, is not a folder" in refusal(known, tmp_path / "file")


def test_a_folder_that_may_not_be_opened_at_all_is_refused(known, pile, monkeypatch):
    def scandir(_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "scandir", scandir)
    assert "cannot be opened: Permission denied" in refusal(known, pile)


def test_labelled_images_without_category_folders_are_refused(pile, tmp_path):
    save(tmp_path / "flat" / "a.png")
    save(tmp_path / "flat" / ".hidden" / "a.png")
    assert f"{str(tmp_path / 'flat')!r} has no category folders" in refusal(tmp_path / "flat", pile)


def test_a_category_without_files_or_without_readable_ones_is_refused(known, pile):
    (known / "bird" / "sub").mkdir(parents=True)
    assert f"{str(known / 'bird')!r} holds no file" in refusal(known, pile)
    (known / "bird" / "a.png").touch()
    (known / "bird" / "sub" / "b.png").write_text("no image")
    message = refusal(known, pile)
    assert "category 'bird'" in message
    assert "2 files" in message
    assert f"{str(known / 'bird' / 'a.png')!r} cannot be used (empty file (0 bytes))" in message


def test_a_second_name_for_a_category_is_refused(known, pile):
    (known / "alias").symlink_to("cat")
    assert f"{str(known / 'alias')!r} holds no file of its own" in refusal(known, pile)


def test_a_pile_without_files_or_without_readable_ones_is_refused(known, tmp_path):
    (tmp_path / "pile").mkdir()
    (tmp_path / "pile" / ".hidden").touch()
    assert f"{str(tmp_path / 'pile')!r} holds no file" in refusal(known, tmp_path / "pile")
    (tmp_path / "pile" / "a.png").touch()
    message = refusal(known, tmp_path / "pile")
    assert f"{str(tmp_path / 'pile')!r} has no readable image: it has 1 file" in message
    assert "empty file" in message


def test_one_folder_for_both_or_one_inside_the_other_is_refused(known, pile, tmp_path):
    (tmp_path / "link").symlink_to("known")
    assert "are the same folder" in refusal(known, tmp_path / "link")
    assert "one inside the other" in refusal(known, tmp_path)
    assert "one inside the other" in refusal(tmp_path, pile)
    assert "one inside the other" in refusal(known, tmp_path / "link" / "dog")


@pytest.mark.parametrize("link", ["file", "folder", "hard"])
def test_a_file_that_is_in_both_folders_is_left_out_of_the_pile(known, pile, link):
    new = pile / "new"
    if link == "file":
        new.symlink_to(known / "dog" / "c.png")
    elif link == "folder":
        new.symlink_to(known / "dog")
    else:
        new.hardlink_to(known / "dog" / "c.png")
    reading = read(known, pile)
    assert (reading.collection.n_labelled, reading.collection.n_unlabelled) == (3, 20)
    place = str(new / "c.png") if link == "folder" else str(new)
    assert reasons_of(reading) == {place: f"the same image as {str(known / 'dog' / 'c.png')!r}"}


def test_names_that_would_break_a_line_are_escaped_in_messages(known, pile):
    (known / "two\nlines").mkdir()
    assert "two\\nlines" in refusal(known, pile)


# The parts that other commands use


def test_a_single_file_lists_itself_and_a_missing_one_is_refused(known):
    assert list_images(known / "dog" / "c.png") == [known / "dog" / "c.png"]
    assert list_images(known / "dog") == [known / "dog" / "c.png"]
    with pytest.raises(UserError, match="no file or folder"):
        list_images(known / "none")
