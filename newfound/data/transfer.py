"""One file from a web server, over as many broken transfers as it takes."""

from __future__ import annotations

import http.client
import re
import ssl
import time
import urllib.error
import urllib.request
from email.message import Message
from pathlib import Path
from typing import IO, NamedTuple
from urllib.parse import urlsplit

from newfound._version import __version__
from newfound.progress import Reporter

SCHEMES = ("http", "https")
TIMEOUT = 30.0
"""Seconds without a byte after which a transfer counts as broken."""
RETRIES = 3
"""Broken transfers in a row, none of which brought the file further, before giving up."""
PAUSE = 1.0
"""Seconds before the first retry; doubled before each further one."""
PIECE = 1 << 16
BUSY = (408, 425, 429, 500, 502, 503, 504)
"""Answers that another attempt may change."""
MEGABYTE = 1_000_000


class Unobtainable(Exception):
    """A file cannot be had from its address; the text is the reason."""


class _Broken(Exception):
    """A transfer ended early; another attempt may bring the rest."""


class _Stale(Exception):
    """The bytes received earlier are no beginning of the file the server has now."""


class _Piece(NamedTuple):
    """Where a response's bytes belong: after the first ``start`` of ``total`` bytes (None: not said)."""

    start: int
    total: int | None


def megabytes(count: int) -> int:
    """Bytes as megabytes, begun ones counted, so that a whole file is shown as whole."""
    return -(-count // MEGABYTE)


def fetch(address: str, part: Path, *, title: str, reporter: Reporter) -> None:
    """The file at ``address`` in ``part``, of which earlier calls may have received a beginning.

    A failure of whatever kind leaves what has been received there. Beside it, ``part``.version names the version it is
    a part of (ETag or Last-Modified), so that two versions of a file are never mixed.
    """
    _require_web(address)
    opener = _opener()
    furthest, failures = _size(part), 0
    while True:
        try:
            _go_on(opener, address, part, title, reporter)
            return
        except _Stale:
            reporter.say(f"{title}: what was received is of another file than the server has; starting again")
            discard(part)
        except _Broken as broken:
            received = _size(part)
            failures = 1 if received > furthest else failures + 1
            furthest = max(furthest, received)
            if failures > RETRIES:
                raise Unobtainable(str(broken)) from None
            after = f" after {received:,} bytes" if received else ""
            reporter.say(f"{title}: {broken}{after}; trying again")
            time.sleep(PAUSE * 2 ** (failures - 1))


def discard(part: Path) -> None:
    """Forget what has been received."""
    part.unlink(missing_ok=True)
    _version_file(part).unlink(missing_ok=True)


def _go_on(opener: urllib.request.OpenerDirector, address: str, part: Path, title: str, reporter: Reporter) -> None:
    """One attempt: ask for what is missing and add it to ``part``."""
    have = _size(part)
    version = _read_version(part) if have else ""
    headers = {"User-Agent": f"newfound/{__version__}", "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
    if version:
        headers["If-Range"] = version
    try:
        response = _open(opener, urllib.request.Request(address, headers=headers))
    except urllib.error.HTTPError as answer:
        with answer:
            if answer.code == 416 and have:
                return _finish_or_start_again(answer.headers, have)
            raise _failure(answer) from None
    with response:
        piece = _place(response, have, version)
        if piece.start == 0:
            if have:
                reporter.say(f"{title}: the server sends it from the beginning")
            discard(part)
            _version_file(part).write_text(_version(response.headers), encoding="latin-1")
        _receive(response, part, piece, title, reporter)


def _receive(response: http.client.HTTPResponse, part: Path, piece: _Piece, title: str, reporter: Reporter) -> None:
    have, total = piece
    with (
        open(part, "ab") as file,
        reporter.task(title, megabytes(total or have), "MB", megabytes(have)) as task,
    ):
        while have != total and (some := _read(response)):
            file.write(some)
            have += len(some)
            task.total = max(task.total, megabytes(have))
            task.advance(megabytes(have) - task.done)
    if total is not None and have < total:
        raise _Broken("the server closed the connection")


def _read(response: http.client.HTTPResponse) -> bytes:
    """The next bytes; none at the end. Apart from writing them, so that a full disk is not taken for a broken line."""
    try:
        return response.read1(PIECE)
    except (OSError, http.client.HTTPException, ValueError) as error:  # ValueError: a chunk's length that is no number
        raise _Broken(_reason(error)) from None


def _open(opener: urllib.request.OpenerDirector, request: urllib.request.Request) -> http.client.HTTPResponse:
    try:
        return opener.open(request, timeout=TIMEOUT)
    except urllib.error.HTTPError:
        raise
    except (OSError, http.client.HTTPException) as error:
        cause = error.reason if isinstance(error, urllib.error.URLError) else error
        if isinstance(cause, ssl.SSLCertVerificationError):
            raise Unobtainable(f"the server's certificate is not valid: {cause.verify_message}") from None
        raise _Broken(_reason(cause)) from None
    except ValueError as error:  # an address, perhaps redirected to, that is none
        raise Unobtainable(_reason(error)) from None


def _failure(answer: urllib.error.HTTPError) -> _Broken | Unobtainable:
    kind = _Broken if answer.code in BUSY else Unobtainable
    printable = "".join(sign if sign.isprintable() else " " for sign in str(answer.reason))
    return kind(f"the server answers {answer.code} {printable}")


def _finish_or_start_again(headers: Message, have: int) -> None:
    """What 416 means, the range asked for being outside the file: there is nothing left to receive, or all is stale."""
    found = re.fullmatch(r"bytes \*/(\d+)", headers.get("Content-Range", "").strip())
    if not found or int(found[1]) != have:
        raise _Stale


def _place(response: http.client.HTTPResponse, have: int, version: str) -> _Piece:
    """Where the bytes of an answer to a request for all but the first ``have`` bytes belong."""
    if response.status == 200:
        length = response.headers.get("Content-Length", "")
        return _Piece(0, int(length) if length.isdecimal() else None)
    if response.status != 206 or not have:
        raise Unobtainable(f"the server answers {response.status} {response.reason}")
    found = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", "").strip())
    now = _version(response.headers)
    if not found or int(found[1]) != have or (version and now and now != version):
        raise _Stale
    return _Piece(have, None if found[2] == "*" else int(found[2]))


def _version(headers: Message) -> str:
    """What tells one version of a file from another in an If-Range header; weak ETags do not."""
    tag = headers.get("ETag", "").strip()
    return tag if tag.startswith('"') else headers.get("Last-Modified", "").strip()


def _version_file(part: Path) -> Path:
    return part.with_name(f"{part.name}.version")


def _read_version(part: Path) -> str:
    try:
        return _version_file(part).read_text(encoding="latin-1").strip()
    except FileNotFoundError:
        return ""


def _size(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0


def _reason(error: object) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {TIMEOUT:g} seconds"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _require_web(address: str) -> None:
    if urlsplit(address).scheme not in SCHEMES:
        raise Unobtainable(f"only {' and '.join(SCHEMES)} addresses are followed")


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirections, but neither to other kinds of addresses nor out of an encrypted connection."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        scheme = urlsplit(newurl).scheme
        if scheme not in SCHEMES or (req.type == "https" and scheme != "https"):
            fp.close()
            raise Unobtainable(f"it is redirected to {newurl!r}, which is not followed")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _opener() -> urllib.request.OpenerDirector:
    """Asks web servers, through the proxy of the environment if any; has no notion of files and other schemes."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler,
        urllib.request.HTTPHandler,
        urllib.request.HTTPSHandler,
        urllib.request.HTTPDefaultErrorHandler,
        urllib.request.HTTPErrorProcessor,
        _Redirects,
    ):
        opener.add_handler(handler())
    return opener
