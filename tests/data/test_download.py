"""A data set comes from a web server, over broken transfers, whole or not at all; the server is on this machine."""

import fcntl
import hashlib
import io
import os
import random
import tarfile
import threading
import time
import urllib.request
import zipfile
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from newfound import progress
from newfound.data import download, transfer
from newfound.data.download import ARCHIVES, Archive, get_data
from newfound.errors import UserError
from newfound.progress import Reporter

QUIET = Reporter(quiet=True)
FILES = {"a": random.Random(0).randbytes(300_000), "b": b"two"}


def packed(files=FILES, folder="toy"):
    """A .tar.gz file of one folder."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(f"{folder}/{name}")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return file.getvalue()


def zipped(folder):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(f"{folder}/x", folder)
    return file.getvalue()


PACKED = packed()


@dataclass
class Site:
    """What the server has, how well it behaves, and what it was asked."""

    files: dict[str, bytes]
    etag: str | None = '"first"'
    ranges: bool = True
    if_range: bool = True
    shift: int = 0
    """How far beside the range asked for the answer is."""
    lengths: bool = True
    """Whether answers say how long they are."""
    cuts: list[int] = field(default_factory=list)
    """After how many bytes each of the next answers ends."""
    stalls: list[float] = field(default_factory=list)
    """How many seconds pass before the content of each of the next answers."""
    errors: list[int] = field(default_factory=list)
    """The status of each of the next answers, if they are errors."""
    redirects: dict[str, str] = field(default_factory=dict)
    asked: list[tuple[str, str | None, str | None]] = field(default_factory=list)
    """Path, Range and If-Range of each request."""
    root: str = ""

    @property
    def ranges_asked(self):
        return [wanted for _, wanted, _ in self.asked]


class Handler(BaseHTTPRequestHandler):
    site: Site

    def do_GET(self):
        site, wanted, version = self.site, self.headers["Range"], self.headers["If-Range"]
        site.asked.append((self.path, wanted, version))
        if site.errors:
            return self.send_error(site.errors.pop(0))
        if self.path in site.redirects:
            self.send_response(302)
            self.send_header("Location", site.redirects[self.path])
            return self.end_headers()
        if self.path not in site.files:
            return self.send_error(404)
        content = site.files[self.path]
        usable = wanted and site.ranges and (version in (None, site.etag) or not site.if_range)
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if usable else 0
        if start >= len(content):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(content)}")
            return self.end_headers()
        self.answer(content, start + site.shift if usable else 0, 206 if usable else 200)

    def answer(self, content, start, status):
        site = self.site
        self.send_response(status)
        if site.lengths:
            self.send_header("Content-Length", str(len(content) - start))
        if status == 206:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        if site.etag:
            self.send_header("ETag", site.etag)
        self.end_headers()
        if site.stalls:
            time.sleep(site.stalls.pop(0))
        rest = content[start:]
        self.wfile.write(rest[: site.cuts.pop(0)] if site.cuts else rest)

    def log_message(self, *args):
        pass


@pytest.fixture
def site():
    """A web server that has /toy.tar.gz."""
    site = Site({"/toy.tar.gz": PACKED})
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("H", (Handler,), {"site": site}))
    server.handle_error = lambda *args: None  # a client that hangs up
    site.root = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield site
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """No proxy, and no waiting before the next attempt."""
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(transfer, "PAUSE", 0.0)


def table(site, content=PACKED, path="/toy.tar.gz"):
    archive = Archive(site.root + path, hashlib.md5(content).hexdigest(), "toy", {"a": 1, "b": 1})
    return {"toy": (archive,)}


def get(site, to, reporter=QUIET, **options):
    return get_data("toy", to, reporter=reporter, addresses=table(site, **options))


def refusal(site, to, **options):
    """The one line that says why there is no data."""
    with pytest.raises(UserError) as caught:
        get(site, to, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def assert_whole(to, files=FILES, besides=()):
    assert {path.name: path.read_bytes() for path in (to / "toy").iterdir()} == files
    assert sorted(os.listdir(to)) == sorted(["toy", *besides])


def begun(to, content, version=None):
    """What an interrupted call left."""
    (to / ".download").mkdir(parents=True)
    part = to / ".download" / "toy.tar.gz.part"
    part.write_bytes(content)
    if version:
        part.with_name(f"{part.name}.version").write_text(version)
    return part


def test_a_data_set_is_downloaded_and_unpacked_and_nothing_else_is_left(site, tmp_path):
    to = tmp_path / "new" / "root"
    assert get(site, to) == [to / "toy"]
    assert_whole(to)
    assert site.asked == [("/toy.tar.gz", None, None)]


def test_a_broken_transfer_is_gone_on_with(site, tmp_path):
    site.cuts = [100_000, 50_000]
    get(site, tmp_path)
    assert_whole(tmp_path)
    assert site.asked == [
        ("/toy.tar.gz", None, None),
        ("/toy.tar.gz", "bytes=100000-", '"first"'),
        ("/toy.tar.gz", "bytes=150000-", '"first"'),
    ]


def test_an_interrupted_call_is_gone_on_with_by_the_next(site, tmp_path, monkeypatch):
    read, pieces = transfer._read, iter([True, True, False])

    def interrupted(response):
        if next(pieces):
            return read(response)
        raise KeyboardInterrupt

    monkeypatch.setattr(transfer, "_read", interrupted)
    with pytest.raises(KeyboardInterrupt):
        get(site, tmp_path)
    received = (tmp_path / ".download" / "toy.tar.gz.part").read_bytes()
    assert 0 < len(received) < len(PACKED)
    assert PACKED.startswith(received)
    monkeypatch.setattr(transfer, "_read", read)
    get(site, tmp_path)
    assert_whole(tmp_path)
    assert site.ranges_asked == [None, f"bytes={len(received)}-"]


def test_a_full_disk_leaves_what_was_received(site, tmp_path, monkeypatch):
    class Full(io.FileIO):
        def write(self, some):
            if self.tell() > 100_000:
                raise OSError(28, "No space left on device")
            return super().write(some)

    monkeypatch.setattr(transfer, "open", lambda path, mode: Full(path, mode.replace("b", "")), raising=False)
    with pytest.raises(OSError, match="No space left"):
        get(site, tmp_path)
    received = (tmp_path / ".download" / "toy.tar.gz.part").stat().st_size
    assert received > 100_000
    monkeypatch.delattr(transfer, "open")
    get(site, tmp_path)
    assert_whole(tmp_path)
    assert site.ranges_asked == [None, f"bytes={received}-"]


def test_a_disk_that_is_full_when_unpacking_costs_no_second_download(site, tmp_path, monkeypatch):
    def full(*args, **options):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(download, "unpack", full)
        with pytest.raises(OSError, match="No space left"):
            get(site, tmp_path)
    get(site, tmp_path)
    assert_whole(tmp_path)
    assert len(site.asked) == 1


def test_a_server_without_ranges_sends_it_again_from_the_beginning(site, tmp_path):
    site.ranges, site.cuts = False, [100_000, 150_000]
    get(site, tmp_path)
    assert_whole(tmp_path)
    assert site.ranges_asked == [None, "bytes=100000-", "bytes=150000-"]


@pytest.mark.parametrize("if_range", [True, False])
def test_a_file_that_changed_meanwhile_is_fetched_from_the_beginning(site, tmp_path, if_range):
    begun(tmp_path, b"x" * 100_000, '"older"')
    site.if_range = if_range  # a server that ignores it sends the rest of the new file
    get(site, tmp_path)
    assert_whole(tmp_path)
    assert site.asked[0] == ("/toy.tar.gz", "bytes=100000-", '"older"')
    assert site.ranges_asked == (["bytes=100000-"] if if_range else ["bytes=100000-", None])


def test_a_piece_of_another_place_is_not_taken(site, tmp_path):
    begun(tmp_path, PACKED[:100_000])
    site.shift = 7
    get(site, tmp_path)
    assert_whole(tmp_path)
    assert site.ranges_asked == ["bytes=100000-", None]


def test_a_part_that_was_complete_is_not_sent_again(site, tmp_path):
    begun(tmp_path, PACKED, '"first"')
    get(site, tmp_path)
    assert_whole(tmp_path)
    assert site.ranges_asked == [f"bytes={len(PACKED)}-"]


def test_a_part_longer_than_the_file_is_fetched_from_the_beginning(site, tmp_path):
    begun(tmp_path, PACKED + b"x")
    get(site, tmp_path)
    assert_whole(tmp_path)
    assert site.ranges_asked == [f"bytes={len(PACKED) + 1}-", None]


def test_a_weak_etag_is_not_relied_on(site, tmp_path):
    site.etag, site.cuts = 'W/"first"', [100_000]
    get(site, tmp_path)
    assert site.asked[1] == ("/toy.tar.gz", "bytes=100000-", None)


def test_a_server_that_does_not_say_the_length_is_believed_until_the_checksum(site, tmp_path):
    site.lengths = False
    get(site, tmp_path)
    assert_whole(tmp_path)


@pytest.mark.parametrize("ranges", [True, False])
def test_a_line_that_breaks_again_and_again_is_given_up_but_what_came_is_kept(site, tmp_path, ranges):
    site.ranges, site.cuts = ranges, [100_000] + [0 if ranges else 100_000] * 50
    text = refusal(site, tmp_path)
    assert len(site.asked) == 1 + transfer.RETRIES
    assert "closed the connection" in text
    assert "what has arrived is kept" in text
    assert (tmp_path / ".download" / "toy.tar.gz.part").read_bytes() == PACKED[:100_000]


def test_as_long_as_a_broken_line_brings_something_it_is_tried_again(site, tmp_path):
    site.cuts = [10_000] * (3 * transfer.RETRIES)
    get(site, tmp_path)
    assert_whole(tmp_path)


def test_a_server_that_stalls_is_asked_again(site, tmp_path, monkeypatch):
    monkeypatch.setattr(transfer, "TIMEOUT", 0.2)
    site.stalls = [0.6]
    said = io.StringIO()
    get(site, tmp_path, Reporter(stream=said))
    assert_whole(tmp_path)
    assert "no answer within 0.2 seconds" in said.getvalue()
    assert len(site.asked) == 2


def test_a_wrong_checksum_is_refused_and_the_file_removed(site, tmp_path):
    site.files["/toy.tar.gz"] = other = packed({"a": b"other", "b": b"file"})
    text = refusal(site, tmp_path)
    assert hashlib.md5(other).hexdigest() in text
    assert hashlib.md5(PACKED).hexdigest() in text
    assert "removed" in text
    assert os.listdir(tmp_path) == []
    site.files["/toy.tar.gz"] = PACKED
    get(site, tmp_path)
    assert_whole(tmp_path)
    assert site.ranges_asked == [None, None]


def test_an_archive_that_is_refused_leaves_nothing(site, tmp_path):
    evil = packed({"a": b"", "../../evil": b""})
    site.files["/toy.tar.gz"] = evil
    assert "'toy/../../evil'" in refusal(site, tmp_path / "root", content=evil)
    assert os.listdir(tmp_path / "root") == []
    assert os.listdir(tmp_path) == ["root"]


def test_a_file_that_is_not_there_says_how_to_proceed_by_hand(site, tmp_path):
    text = refusal(site, tmp_path, path="/gone/toy.tar.gz")
    assert f"{site.root}/gone/toy.tar.gz" in text
    assert "404 Not Found" in text
    assert f"put it into {str(tmp_path)!r} as 'toy.tar.gz'" in text
    assert len(site.asked) == 1
    assert os.listdir(tmp_path) == []


def test_a_busy_server_is_asked_again(site, tmp_path):
    site.errors = [503, 429]
    get(site, tmp_path)
    assert_whole(tmp_path)


def test_without_a_server_the_address_is_named(site, tmp_path):
    address = site.root.rsplit(":", 1)[0] + ":1/toy.tar.gz"
    archive = Archive(address, "", "toy", {})
    with pytest.raises(UserError) as caught:
        get_data("toy", tmp_path, reporter=QUIET, addresses={"toy": (archive,)})
    assert address in str(caught.value)
    assert "refused" in str(caught.value)
    assert "put it into" in str(caught.value)


def test_a_redirection_is_followed_by_every_request(site, tmp_path):
    site.redirects, site.cuts = {"/old/toy.tar.gz": "/toy.tar.gz"}, [100_000]
    get(site, tmp_path, path="/old/toy.tar.gz")
    assert_whole(tmp_path)
    assert site.asked[-1] == ("/toy.tar.gz", "bytes=100000-", '"first"')


@pytest.mark.parametrize("target", ["file:///etc/passwd", "ftp://127.0.0.1/toy.tar.gz", "data:,toy"])
def test_a_redirection_to_something_other_than_a_web_server_is_refused(site, tmp_path, target):
    site.redirects = {"/old/toy.tar.gz": target}
    assert target in refusal(site, tmp_path, path="/old/toy.tar.gz")
    assert os.listdir(tmp_path) == []


def test_a_redirection_in_a_circle_ends(site, tmp_path):
    site.redirects = {"/old/toy.tar.gz": "/old/toy.tar.gz"}
    assert "302" in refusal(site, tmp_path, path="/old/toy.tar.gz")


def test_a_redirection_out_of_an_encrypted_connection_is_refused():
    def redirect(old, new):
        return transfer._Redirects().redirect_request(urllib.request.Request(old), io.BytesIO(), 302, "", {}, new)

    with pytest.raises(transfer.Unobtainable, match="http://there"):
        redirect("https://here/toy", "http://there/toy")
    assert redirect("https://here/toy", "https://there/toy").full_url == "https://there/toy"
    assert redirect("http://here/toy", "https://there/toy").full_url == "https://there/toy"


@pytest.mark.parametrize("address", ["file://{}/toy.tar.gz", "ftp://127.0.0.1/toy.tar.gz", "{}/toy.tar.gz"])
def test_only_web_addresses_are_followed(tmp_path, address):
    (tmp_path / "toy.tar.gz").write_bytes(PACKED)
    archive = Archive(address.format(tmp_path), hashlib.md5(PACKED).hexdigest(), "toy", {})
    with pytest.raises(UserError, match="only http and https"):
        get_data("toy", tmp_path / "root", reporter=QUIET, addresses={"toy": (archive,)})


def test_the_proxy_of_the_environment_is_used(site, tmp_path, monkeypatch):
    monkeypatch.setenv("no_proxy", "")
    monkeypatch.setenv("http_proxy", site.root)
    address = "http://publisher.invalid/toy.tar.gz"
    site.files[address] = PACKED
    archive = Archive(address, hashlib.md5(PACKED).hexdigest(), "toy", {})
    get_data("toy", tmp_path, reporter=QUIET, addresses={"toy": (archive,)})
    assert_whole(tmp_path)


def test_a_second_call_does_nothing_and_says_so(site, tmp_path):
    get(site, tmp_path)
    before = (tmp_path / "toy").stat()
    said = io.StringIO()
    assert get(site, tmp_path, Reporter(stream=said)) == [tmp_path / "toy"]
    assert "is there already" in said.getvalue()
    assert len(site.asked) == 1
    assert (tmp_path / "toy").stat() == before


def test_a_folder_that_is_not_whole_is_left_alone(site, tmp_path):
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "a").write_bytes(b"mine")
    text = refusal(site, tmp_path)
    assert str(tmp_path / "toy") in text
    assert "of b there should be 1" in text
    assert site.asked == []
    assert_whole(tmp_path, {"a": b"mine"})


def test_an_archive_put_there_by_hand_is_used_and_stays(site, tmp_path):
    (tmp_path / "toy.tar.gz").write_bytes(PACKED)
    get(site, tmp_path)
    assert site.asked == []
    assert_whole(tmp_path, besides=["toy.tar.gz"])


def test_an_archive_put_there_by_hand_that_is_not_whole_is_refused_and_stays(site, tmp_path):
    (tmp_path / "toy.tar.gz").write_bytes(PACKED[:1000])
    text = refusal(site, tmp_path)
    assert str(tmp_path / "toy.tar.gz") in text
    assert hashlib.md5(PACKED).hexdigest() in text
    assert site.asked == []
    assert os.listdir(tmp_path) == ["toy.tar.gz"]


def test_of_two_archives_only_the_missing_one_is_fetched(site, tmp_path):
    archives = []
    for name in ("one", "two"):
        site.files[f"/{name}.zip"] = zipped(name)
        archives.append(Archive(f"{site.root}/{name}.zip", hashlib.md5(zipped(name)).hexdigest(), name, {"x": 1}))
    both = {"both": tuple(archives)}
    assert get_data("both", tmp_path, reporter=QUIET, addresses=both) == [tmp_path / "one", tmp_path / "two"]
    os.rename(tmp_path / "two", tmp_path / "aside")
    get_data("both", tmp_path, reporter=QUIET, addresses=both)
    assert (tmp_path / "two" / "x").read_text() == "two"
    assert [path for path, _, _ in site.asked] == ["/one.zip", "/two.zip", "/two.zip"]


def test_two_processes_do_not_get_data_into_one_folder(site, tmp_path):
    handle = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        assert "another process" in refusal(site, tmp_path)
    finally:
        os.close(handle)
    get(site, tmp_path)


def test_a_file_where_the_folder_should_be_is_refused(site, tmp_path):
    (tmp_path / "root").write_bytes(b"")
    assert str(tmp_path / "root") in refusal(site, tmp_path / "root")
    assert str(tmp_path / "root" / "below") in refusal(site, tmp_path / "root" / "below")


def test_progress_tells_of_both_halves_and_quiet_of_none(site, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(progress, "MOMENT", 0)
    said = io.StringIO()
    site.cuts = [100_000]
    get(site, tmp_path / "one", Reporter(stream=said))
    assert "downloading toy.tar.gz: 1/1 MB" in said.getvalue()
    assert "the server closed the connection after 100,000 bytes; trying again" in said.getvalue()
    assert "unpacking toy.tar.gz: 1/1 MB" in said.getvalue()
    get(site, tmp_path / "two")
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("name", ["imagenet", "imagenet-a", "imagenet-b", "imagenet-c"])
def test_imagenet_has_to_be_requested(tmp_path, name):
    with pytest.raises(UserError, match=r"image-net\.org.*train/.*val/.*WordNet") as caught:
        get_data(name, tmp_path / "root", reporter=QUIET)
    assert "\n" not in str(caught.value)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("name", "whole"),
    [
        ("cifar10-rehearsal", "cifar10"),
        ("cifar100-50", "cifar100"),
        ("cifar100-rehearsal", "cifar100"),
        ("omniglot-rehearsal", "omniglot"),
    ],
)
def test_another_split_is_the_same_download(site, tmp_path, name, whole):
    assert get_data(name, tmp_path, reporter=QUIET, addresses={whole: table(site)["toy"]}) == [tmp_path / "toy"]


def test_an_unknown_name_lists_the_known_ones(tmp_path):
    with pytest.raises(UserError) as caught:
        get_data("mnist", tmp_path, reporter=QUIET)
    for name in ("cifar10", "cifar100", "omniglot", "cifar100-50", "cifar100-rehearsal", "omniglot-rehearsal"):
        assert name in str(caught.value).replace(":", "").replace(",", "").split()


def test_the_publishers_layout_counts_as_whole(tmp_path):
    batches = ["data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5"]
    layouts = {
        "cifar10": [f"cifar-10-batches-py/{name}" for name in [*batches, "test_batch", "batches.meta"]],
        "cifar100": [f"cifar-100-python/{name}" for name in ("train", "test", "meta")],
    }
    for name, files in layouts.items():
        for file in files:
            (tmp_path / file).parent.mkdir(exist_ok=True)
            (tmp_path / file).touch()
        assert get_data(name, tmp_path, reporter=QUIET) == [tmp_path / ARCHIVES[name][0].folder]
    (tmp_path / "cifar-10-batches-py" / "data_batch_3").unlink()
    with pytest.raises(UserError, match="not whole"):
        get_data("cifar10", tmp_path, reporter=QUIET)
