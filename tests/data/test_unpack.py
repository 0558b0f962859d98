"""An archive gives the folder expected of it, or is refused with nothing changed on disk."""

import gzip
import io
import os
import random
import shutil
import stat
import struct
import tarfile
import zipfile

import pytest

from newfound.data.unpack import Member, unpack
from newfound.errors import UserError
from newfound.progress import Reporter

QUIET = Reporter(quiet=True)
GOOD = {"toy/a": b"one", "toy/below/b": b"two" * 1000}


def tar_of(path, *members, **options):
    """A .tar.gz of (name or TarInfo, bytes) members."""
    with tarfile.open(path, "w:gz", **options) as tar:
        for name, content in members:
            info = tarfile.TarInfo(name) if isinstance(name, str) else name
            if info.isreg():
                info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


def tar_info(name, kind, link=""):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


def zip_of(path, *members, compression=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return path


def zip_info(name, mode):
    info = zipfile.ZipInfo(name)
    info.external_attr = mode << 16
    return info


def good(root, kind):
    make = tar_of if kind == "tar.gz" else zip_of
    return make(root / f"good.{kind}", *GOOD.items())


def everything(root):
    """All that is below a folder, with content and kind."""
    paths = sorted(root.rglob("*"))
    return {str(path): path.read_bytes() if path.is_file() else path.is_symlink() for path in paths}


def refusal(archive, to, **limits):
    """The one line that refuses the archive; nothing in the test's folder may have changed."""
    before = everything(archive.parent)
    with pytest.raises(UserError) as caught:
        unpack(archive, "toy", to, reporter=QUIET, **limits)
    assert everything(archive.parent) == before
    text = str(caught.value)
    assert str(archive) in text
    assert "\n" not in text
    return text


@pytest.fixture
def to(tmp_path):
    root = tmp_path / "deep" / "root"
    root.mkdir(parents=True)
    return root


@pytest.mark.parametrize("kind", ["tar.gz", "zip"])
def test_the_folder_has_the_members_and_nothing_else_is_left(tmp_path, to, kind):
    assert unpack(good(tmp_path, kind), "toy", to, reporter=QUIET) == to / "toy"
    assert os.listdir(to) == ["toy"]
    files = {str(path.relative_to(to)): path.read_bytes() for path in to.rglob("*") if path.is_file()}
    assert files == GOOD


@pytest.mark.parametrize("kind", ["tar.gz", "zip"])
def test_folders_other_than_the_expected_one_are_left_out(tmp_path, to, kind):
    make = tar_of if kind == "tar.gz" else zip_of
    archive = make(tmp_path / f"two.{kind}", ("__MACOSX/toy/._a", b"x"), ("./toy/a", b"one"), ("readme", b"x"))
    unpack(archive, "toy", to, reporter=QUIET)
    assert [str(path.relative_to(to)) for path in sorted(to.rglob("*"))] == ["toy", "toy/a"]


NAMES = ["../evil", "toy/../../evil", "toy/..", "/tmp/newfound-evil", "..\\evil", "toy\\evil", "C:/evil", "c:evil"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["tar.gz", "zip"])
def test_a_name_that_leads_out_of_the_folder_is_refused(tmp_path, to, kind, name):
    make = tar_of if kind == "tar.gz" else zip_of
    archive = make(tmp_path / f"evil.{kind}", ("toy/a", b"one"), (name, b"evil"))
    assert repr(name) in refusal(archive, to)
    assert not os.path.exists("/tmp/newfound-evil")


def test_a_name_with_a_nul_is_refused(tmp_path, to):
    archive = zip_of(tmp_path / "nul.zip", ("toy/a.png?.exe", b"one"))
    archive.write_bytes(archive.read_bytes().replace(b"png?", b"png\0"))
    assert repr("toy/a.png\0.exe") in refusal(archive, to)
    info = tarfile.TarInfo("toy/a")
    info.pax_headers = {"path": "toy/a.png\0.exe"}
    archive = tar_of(tmp_path / "nul.tar.gz", (info, b"one"), format=tarfile.PAX_FORMAT)
    assert repr("toy/a.png\0.exe") in refusal(archive, to)


@pytest.mark.parametrize(
    "info",
    [
        tar_info("toy/evil", tarfile.SYMTYPE, "../../outside"),
        tar_info("toy/evil", tarfile.SYMTYPE, "a"),
        tar_info("toy/evil", tarfile.LNKTYPE, "toy/a"),
        tar_info("elsewhere/evil", tarfile.SYMTYPE, "/"),
        tar_info("toy/evil", tarfile.CHRTYPE),
        tar_info("toy/evil", tarfile.BLKTYPE),
        tar_info("toy/evil", tarfile.FIFOTYPE),
    ],
)
def test_links_and_devices_in_a_tar_are_refused(tmp_path, to, info):
    archive = tar_of(tmp_path / "evil.tar.gz", ("toy/a", b"one"), (info, b""), ("toy/evil/b", b"two"))
    text = refusal(archive, to)
    assert repr(info.name) in text
    assert ("it is a link" if info.issym() or info.islnk() else "neither a plain file nor a folder") in text


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR, stat.S_IFBLK, stat.S_IFSOCK])
def test_links_and_devices_in_a_zip_are_refused(tmp_path, to, kind):
    archive = zip_of(tmp_path / "evil.zip", ("toy/a", b"one"), (zip_info("toy/evil", kind | 0o777), b"/etc/passwd"))
    text = refusal(archive, to)
    assert "'toy/evil'" in text
    assert ("it is a link" if kind == stat.S_IFLNK else "neither a plain file nor a folder") in text


@pytest.mark.parametrize("kind", ["tar.gz", "zip"])
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_member_that_comes_twice_or_hides_another_is_refused(tmp_path, to, kind):
    make = tar_of if kind == "tar.gz" else zip_of
    twice = make(tmp_path / f"twice.{kind}", ("toy/a", b"one"), ("toy/a", b"two"))
    assert "'toy/a'" in refusal(twice, to)
    disguised = make(tmp_path / f"disguised.{kind}", ("toy/a", b"one"), ("./toy//a", b"two"))
    assert "'./toy//a'" in refusal(disguised, to)
    below = make(tmp_path / f"below.{kind}", ("toy/a", b"one"), ("toy/a/b", b"two"))
    assert "'toy/a/b'" in refusal(below, to)


@pytest.mark.parametrize("kind", ["tar.gz", "zip"])
def test_names_too_long_or_too_deep_are_refused(tmp_path, to, kind):
    make = tar_of if kind == "tar.gz" else zip_of
    assert "too long" in refusal(make(tmp_path / f"long.{kind}", ("toy/" + "a" * 300, b"")), to)
    assert "too many parts" in refusal(make(tmp_path / f"deep.{kind}", ("toy/" + "a/" * 1500 + "b", b"")), to)


@pytest.mark.parametrize("kind", ["tar.gz", "zip"])
def test_more_bytes_than_allowed_are_refused_and_as_many_are_not(tmp_path, to, kind):
    make = tar_of if kind == "tar.gz" else zip_of
    archive = make(tmp_path / f"large.{kind}", ("toy/a", bytes(600_000)), ("toy/b", bytes(400_000)))
    assert archive.stat().st_size < 5_000
    text = refusal(archive, to, most_bytes=999_999)
    assert "'toy/b'" in text
    assert "999,999 bytes" in text
    unpack(archive, "toy", to, reporter=QUIET, most_bytes=1_000_000)


def test_a_zip_that_lies_about_its_sizes_is_refused(tmp_path, to):
    size = 5_000_000
    archive = zip_of(tmp_path / "bomb.zip", ("toy/a", bytes(size)))
    honest = archive.read_bytes()
    assert honest.count(struct.pack("<I", size)) == 2
    archive.write_bytes(honest.replace(struct.pack("<I", size), struct.pack("<I", 10)))
    assert "damaged" in refusal(archive, to, most_bytes=1000)


def test_the_bytes_that_come_count_whatever_the_archive_says(tmp_path, to, monkeypatch):
    endless = Member("toy/a", is_folder=False, size=0, open=lambda: io.BytesIO(bytes(1001)))
    monkeypatch.setattr("newfound.data.unpack._zip_members", lambda file, most: (member for member in [endless]))
    assert "more than 1,000 bytes" in refusal(good(tmp_path, "zip"), to, most_bytes=1000)


def test_members_that_share_their_bytes_count_each_time(tmp_path, to):
    """The bomb of overlapping members: one compressed block that the directory lists many times."""
    archive = zip_of(tmp_path / "bomb.zip", ("toy/a", bytes(100_000)), ("toy/b", bytes(100_000)))
    packed = bytearray(archive.read_bytes())
    second = packed.rindex(b"PK\x01\x02")
    packed[second + 42 : second + 46] = struct.pack("<I", 0)  # where the member begins
    archive.write_bytes(packed)
    refusal(archive, to, most_bytes=150_000)


def test_content_that_is_skipped_and_endless_headers_are_limited_too(tmp_path, to):
    archive = tar_of(tmp_path / "bomb.tar.gz", ("other/a", bytes(3_000_000)), ("toy/a", b"one"))
    assert "more than 1,000 bytes" in refusal(archive, to, most_bytes=1000, most_members=10)
    info = tar_info("toy/a", tarfile.GNUTYPE_LONGNAME)
    info.size = 3_000_000
    with tarfile.open(archive, "w:gz") as tar:
        tar.addfile(info, io.BytesIO(b"a" * info.size))
    assert "more than 1,000 bytes" in refusal(archive, to, most_bytes=1000, most_members=10)


@pytest.mark.parametrize("kind", ["tar.gz", "zip"])
def test_more_members_than_allowed_are_refused(tmp_path, to, kind):
    make = tar_of if kind == "tar.gz" else zip_of
    archive = make(tmp_path / f"many.{kind}", *((f"toy/{i}", b"") for i in range(11)))
    assert "more than 10 members" in refusal(archive, to, most_members=10)
    unpack(archive, "toy", to, reporter=QUIET, most_members=11)


@pytest.mark.parametrize("kind", ["tar.gz", "zip"])
def test_an_archive_without_the_expected_folder_is_refused(tmp_path, to, kind):
    make = tar_of if kind == "tar.gz" else zip_of
    assert "no folder 'toy'" in refusal(make(tmp_path / f"other.{kind}", ("other/a", b"one")), to)
    assert "no folder 'toy'" in refusal(make(tmp_path / f"file.{kind}", ("toy", b"one")), to)


def test_an_encrypted_member_and_an_unusual_compression_are_refused(tmp_path, to):
    archive = zip_of(tmp_path / "odd.zip", ("toy/a", b"one" * 100))
    for flag_at, name_of in ((6, b"PK\x03\x04"), (8, b"PK\x01\x02")):
        packed = bytearray(archive.read_bytes())
        packed[packed.index(name_of) + flag_at] |= 1
        archive.write_bytes(packed)
    assert "encrypted" in refusal(archive, to)
    zip_of(archive, ("toy/a", b"one" * 100), compression=zipfile.ZIP_LZMA)
    assert "compressed" in refusal(archive, to)


@pytest.mark.parametrize("kind", ["tar.gz", "zip"])
def test_what_exists_already_is_never_overwritten(tmp_path, to, kind):
    archive = good(tmp_path, kind)
    (to / "toy").mkdir()  # a rename would replace an empty folder
    with pytest.raises(UserError, match="exists already"):
        unpack(archive, "toy", to, reporter=QUIET)
    assert os.listdir(to / "toy") == []
    (to / "toy").rmdir()
    (to / "toy").symlink_to("nowhere")
    with pytest.raises(UserError, match="exists already"):
        unpack(archive, "toy", to, reporter=QUIET)
    assert os.listdir(to) == ["toy"]
    assert (to / "toy").is_symlink()


@pytest.mark.parametrize("kind", ["tar.gz", "zip"])
def test_permissions_do_not_come_from_the_archive(tmp_path, to, kind):
    if kind == "tar.gz":
        folder, file = tar_info("toy", tarfile.DIRTYPE), tarfile.TarInfo("toy/a")
        folder.mode, file.mode, file.uid, file.gid = 0o000, 0o6777, 1234, 1234
        archive = tar_of(tmp_path / "modes.tar.gz", (folder, b""), (file, b"one"))
    else:
        members = (zip_info("toy/", stat.S_IFDIR), b""), (zip_info("toy/a", stat.S_IFREG | 0o6777), b"one")
        archive = zip_of(tmp_path / "modes.zip", *members)
    before = os.umask(0)
    try:
        unpack(archive, "toy", to, reporter=QUIET)
    finally:
        os.umask(before)
    assert stat.S_IMODE((to / "toy").stat().st_mode) == 0o755
    assert stat.S_IMODE((to / "toy" / "a").stat().st_mode) == 0o644
    assert (to / "toy" / "a").stat().st_uid == os.getuid()


@pytest.mark.parametrize("kind", ["tar.gz", "zip"])
def test_an_archive_that_ends_early_is_refused_at_whatever_byte(tmp_path, to, kind):
    whole = good(tmp_path, kind).read_bytes()
    archive = tmp_path / f"short.{kind}"
    # A tar file ends in two blocks of zeros, without which it is still whole: its last 20 compressed bytes.
    for length in range(0, len(whole) - 60, 7):
        archive.write_bytes(whole[:length])
        assert "damaged" in refusal(archive, to)


@pytest.mark.parametrize("kind", ["tar.gz", "zip"])
def test_an_archive_with_random_damage_is_read_or_refused_and_nothing_else(tmp_path, to, kind):
    chance = random.Random(0)
    whole = good(tmp_path, kind).read_bytes()
    whole = gzip.decompress(whole) if kind == "tar.gz" else whole
    archive = tmp_path / f"damaged.{kind}"
    refused = 0
    for _ in range(150):
        damaged = bytearray(whole)
        for _ in range(chance.randint(1, 8)):
            damaged[chance.randrange(len(damaged))] = chance.choice([0, 0xFF, 0x80, chance.randrange(256)])
        archive.write_bytes(gzip.compress(damaged, 1) if kind == "tar.gz" else damaged)
        before = everything(tmp_path)
        try:
            unpack(archive, "toy", to, reporter=QUIET, most_bytes=10_000_000)
        except UserError:
            refused += 1
            assert everything(tmp_path) == before
        else:
            assert os.listdir(to) == ["toy"]
            shutil.rmtree(to / "toy")
    assert refused > 10


def test_a_full_disk_passes_on_and_leaves_nothing(tmp_path, to, monkeypatch):
    archive = good(tmp_path, "tar.gz")
    before = everything(tmp_path)

    def full(*args, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("newfound.data.unpack.open", full, raising=False)
    with pytest.raises(OSError, match="No space left"):
        unpack(archive, "toy", to, reporter=QUIET)
    assert everything(tmp_path) == before


def test_what_a_killed_call_left_is_cleared_away(tmp_path, to):
    (to / ".toy.0007abcd.writing" / "toy").mkdir(parents=True)
    (to / ".toy.0007abcd.writing" / "toy" / "a").write_bytes(b"half")
    unpack(good(tmp_path, "zip"), "toy", to, reporter=QUIET)
    assert os.listdir(to) == ["toy"]
    assert (to / "toy" / "a").read_bytes() == b"one"


@pytest.mark.parametrize("kind", ["tar.gz", "zip"])
def test_progress_ends_at_the_size_of_the_archive(tmp_path, to, kind):
    make = tar_of if kind == "tar.gz" else zip_of
    noise = random.Random(0).randbytes(1_200_000)
    archive = make(tmp_path / f"noise.{kind}", ("toy/a", noise), ("toy/b", noise))
    said = io.StringIO()
    unpack(archive, "toy", to, reporter=Reporter(stream=said))
    assert said.getvalue().startswith(f"unpacking noise.{kind}: 3/3 MB in ")
