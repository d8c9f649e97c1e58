"""One HTTP client that reads ranges of files, follows redirects itself, and can be cut off from outside."""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

import httpx2

from app import VERSION
from app.downloads.faults import broken, refused
from app.downloads.hub import Hub, check_online
from app.downloads.retry import Patience, Retry
from app.errors import DownloadFailed

REDIRECTS = 10
_CONTENT_RANGE = re.compile(r"bytes (\d{1,19})-(\d{1,19})/(\d{1,19})", re.ASCII)
_LENGTH = re.compile(r"\d{1,19}", re.ASCII)
_ETAG = re.compile(r"(?!W/)[!-~]+")
"""A strong validator that can be sent back: a weak one promises no equal bytes, and headers are ASCII."""
_MOVED = (301, 302, 303, 307, 308)


@dataclass(frozen=True, slots=True)
class Source:
    """A file on a hub."""

    hub: Hub
    repo: str
    commit: str
    name: str


@dataclass(frozen=True, slots=True)
class Answer:
    """Bytes of a file, as they come.

    Attributes:
        start: the offset of the first byte.
        total: the size of the whole file as the server says, None when it does not say.
        etag: the server's validator for If-Range, "" without one.
        is_page: whether the server calls it a web page.
        chunks: the bytes.
    """

    start: int
    total: int | None
    etag: str
    is_page: bool
    chunks: Iterator[bytes]


class Connection:
    """Reads one file at a time. `interrupt` may be called from any thread, the rest from one."""

    def __init__(self, hub: Hub, patience: Patience) -> None:
        self._hub = hub
        self._token = hub.token()
        timeout = httpx2.Timeout(patience.stall, connect=patience.connect)
        agent = {"User-Agent": f"mlxr/{VERSION}"}
        self._client = httpx2.Client(timeout=timeout, headers=agent, verify=_certificates())
        self._sockets: list[socket.socket] = []
        self._is_interrupted = False

    def close(self) -> None:
        """Close every connection; the next request opens new ones."""
        self._client.close()

    def interrupt(self) -> None:
        """End whatever is being read or waited for, with an error in the reading thread."""
        self._is_interrupted = True
        for opened in tuple(self._sockets):
            _shut(opened)

    @contextmanager
    def read(self, source: Source, first: int, last: int, etag: str) -> Generator[Answer]:
        """The bytes `first` to `last` of the file, or all of it where the server sends no ranges.

        With `etag`, the range is sent only if the file is still the one that had it.
        Raises Retry for what may pass, in the body of the `with` too, and DownloadFailed for what will not.
        """
        check_online()
        headers = {"Range": f"bytes={first}-{last}", "Accept-Encoding": "identity"}
        if etag:
            headers["If-Range"] = etag
        try:
            response = self._follow(source, headers)
            try:
                yield _answer(response, first)
            finally:
                response.close()
        except httpx2.HTTPError as error:
            raise broken(error, self._hub.endpoint) from None

    def _follow(self, source: Source, headers: dict[str, str]) -> httpx2.Response:
        url = httpx2.URL(self._hub.address(source.repo, source.commit, source.name))
        home = httpx2.URL(self._hub.endpoint)
        for _ in range(REDIRECTS):
            response = self._send(url, headers, with_token=_origin(url) == _origin(home))
            if response.status_code not in _MOVED or "Location" not in response.headers:
                return self._checked(response, source, is_home=_origin(url) == _origin(home))
            response.close()
            url = _next(url, response.headers["Location"])
        raise Retry(f"{home.host} sends from one address to the next without end")

    def _send(self, url: httpx2.URL, headers: dict[str, str], *, with_token: bool) -> httpx2.Response:
        if with_token and self._token:
            headers = {**headers, "Authorization": f"Bearer {self._token}"}
        request = self._client.build_request("GET", url, headers=headers)
        request.extensions["trace"] = self._trace
        return self._client.send(request, stream=True)

    def _checked(self, response: httpx2.Response, source: Source, *, is_home: bool) -> httpx2.Response:
        """The response when it has bytes of the file. Raises Retry or DownloadFailed."""
        status = response.status_code
        if status in (200, 206):
            return response
        response.close()
        if status == 416 or status < 400:
            raise Retry(f"{response.url.host} does not send the part of {source.name} that is missing")
        if not is_home and status in (401, 403, 404, 410):  # a signed address that ran out: ask the hub again
            raise Retry(f"{response.url.host} does not send {source.name} (HTTP {status})")
        had_token = self._token is not None
        raise refused(response, self._hub.endpoint, source.repo, source.name, had_token=had_token)

    def _trace(self, event: str, info: dict[str, Any]) -> None:
        """Remember the sockets that the client opens, TLS on top of TCP each anew."""
        get = getattr(info.get("return_value"), "get_extra_info", None)
        if get is not None and (opened := get("socket")) is not None:
            self._sockets.append(opened)
            if self._is_interrupted:
                _shut(opened)


@cache
def _certificates() -> ssl.SSLContext:
    """Read once: it takes longer than many a small file."""
    return httpx2.create_ssl_context()


def _answer(response: httpx2.Response, first: int) -> Answer:
    headers = response.headers
    etag = headers.get("ETag", "")
    length, is_plain = headers.get("Content-Length", ""), "Content-Encoding" not in headers
    start, total = 0, int(length) if is_plain and _LENGTH.fullmatch(length) else None
    if response.status_code == 206:
        match = _CONTENT_RANGE.fullmatch(headers.get("Content-Range", ""))
        if match is None or int(match[1]) != first or not is_plain:
            raise Retry(f"{response.url.host} sends another part of the file than it was asked for")
        start, total = first, int(match[3])
    is_page = headers.get("Content-Type", "").startswith("text/html")
    return Answer(start, total, etag if _ETAG.fullmatch(etag) else "", is_page, response.iter_bytes())


def _next(url: httpx2.URL, location: str) -> httpx2.URL:
    try:
        target = url.join(location)
    except httpx2.InvalidURL:
        raise Retry(f"{url.host} sends to an address that makes no sense") from None
    if target.scheme not in ("http", "https") or (url.scheme == "https" and target.scheme == "http"):
        to = f"{target.scheme}://{target.host}"
        raise DownloadFailed(f"{url.host} sends to {to}, which is not safe to follow", is_resumable=True)
    return target


def _shut(opened: socket.socket) -> None:
    with suppress(OSError):
        socket.socket.shutdown(opened, socket.SHUT_RDWR)  # TLS's own would be in the reading thread's way


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port
