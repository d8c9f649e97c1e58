"""Connections of the local hub: requests are read, recorded and answered, a thread per connection."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import SHUT_RDWR, SHUT_WR, SO_SNDBUF, SOL_SOCKET, socket
from typing import Any

from tests.hub.faults import Fault, Faults
from tests.hub.messages import Answer, Content, Request
from tests.hub.sending import Cut, pieces, plan
from tests.hub.site import Site
from tests.hub.store import Store

HOST = "127.0.0.1"
AHEAD = 4096
"""Bytes that the system takes for a client that does not read: what was sent is about what was received."""

_WIFI_PAGE = b"<!doctype html><title>Welcome</title><p>Please accept the terms of this network."


@dataclass(slots=True)
class Served:
    """A request and how far its answer has come; `status` is 0 until it begins.

    Args:
        range: the Range header.
        headers: the request's, by lower-case name.
        time: seconds of `time.monotonic` when it was read.
        repo_id, file: what its address means, where it means a file's bytes or its redirect.
        bytes_sent: of the body.
    """

    method: str
    path: str
    range: str | None
    headers: Mapping[str, str]
    time: float
    repo_id: str | None
    file: str | None
    on_cdn: bool
    status: int = 0
    bytes_sent: int = 0
    has_content: bool = False

    @property
    def has_token(self) -> bool:
        """Whether it carried an authorization header."""
        return "authorization" in self.headers


@dataclass(frozen=True, slots=True)
class Office:
    """What every connection of one hub works with."""

    site: Site
    store: Store
    faults: Faults = field(default_factory=Faults)
    requests: list[Served] = field(default_factory=list[Served])


class Listener(ThreadingHTTPServer):
    """Accepts connections on one port."""

    daemon_threads = False  # server_close waits for every answer's thread
    request_queue_size = 64

    def __init__(self, office: Office, port: int, *, on_cdn: bool) -> None:
        self.office = office
        self.on_cdn = on_cdn
        self._lock = threading.Lock()
        self._open: set[socket] = set()
        super().__init__((HOST, port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        request.setsockopt(SOL_SOCKET, SO_SNDBUF, AHEAD)
        with self._lock:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def drop_connections(self) -> None:
        """End every connection; the threads at the other end of them see it."""
        with self._lock:
            for connection in self._open:
                _shut(connection, SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        raise  # called inside an except clause: a bug of the hub must fail the test


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = 3600.0  # seconds; without one a send waits until all is taken, or fails and tells of no part
    server: Listener  # pyright: ignore[reportIncompatibleVariableOverride]
    connection: socket

    def log_message(self, format: str, *args: Any) -> None:
        """`HubServer.requests` is the log."""

    def handle(self) -> None:
        try:
            super().handle()
        except (ConnectionError, TimeoutError):
            self.close_connection = True  # the client went away, or the hub goes offline

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(self.command, self.path, headers, body, self.server.on_cdn)
        served = self._record(request)
        fault = self.server.office.faults.take_answer(request.method, request.path, served.file)
        if fault is None:
            self._answer(request, served, self.server.office.site.answer(request))
        elif fault.kind == "drop":
            self._end()
        else:
            self._answer(request, served, _instead(fault, request))

    do_HEAD = do_GET  # noqa: N815 — the names the standard library looks for
    do_POST = do_GET  # noqa: N815

    def _record(self, request: Request) -> Served:
        repo_id, file = self.server.office.site.file_of(request) or (None, None)
        headers, now = request.headers, time.monotonic()
        range_ = headers.get("range")
        served = Served(
            request.method, request.path, range_, headers, now, repo_id, file, on_cdn=request.on_cdn
        )
        self.server.office.requests.append(served)
        return served

    def _answer(self, request: Request, served: Served, answer: Answer) -> None:
        if isinstance(answer.body, Content):
            self._content(request, served, answer, answer.body)
            return
        self._head(served, answer.status, answer.headers | {"Content-Length": str(len(answer.body))})
        if request.method != "HEAD":
            self._send(served, answer.body)

    def _content(self, request: Request, served: Served, answer: Answer, content: Content) -> None:
        office = self.server.office
        planned = plan(request, content, office.faults, office.store.corrupt)
        served.has_content = True
        self._head(served, planned.status, {"Content-Length": "0"} | answer.headers | planned.headers)
        if request.method == "HEAD":
            return
        try:
            for piece in pieces(planned, content, office.faults, office.store.corrupt):
                self._send(served, piece)
        except Cut:
            self._end()

    def _head(self, served: Served, status: int, headers: Mapping[str, str]) -> None:
        served.status = status
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _send(self, served: Served, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            taken = 0
            served.bytes_sent += len(rest)  # before: a client that has them all may ask at once how many
            try:
                taken = self.connection.send(rest)
            finally:
                served.bytes_sent -= len(rest) - taken
            rest = rest[taken:]

    def _end(self) -> None:
        """What was sent arrives; then the stream is over."""
        self.close_connection = True
        _shut(self.connection, SHUT_WR)


def _shut(connection: socket, how: int) -> None:
    try:
        connection.shutdown(how)
    except OSError:  # the client was faster
        return


def _instead(fault: Fault, request: Request) -> Answer:
    if fault.kind == "html":
        return Answer(200, {"Content-Type": "text/html"}, _WIFI_PAGE)
    if fault.kind == "redirect_loop":
        return Answer(302, {"Location": request.target})
    headers = {} if fault.retry_after is None else {"Retry-After": str(fault.retry_after)}
    return Answer(fault.status, headers | {"Content-Type": "text/plain"}, f"Error {fault.status}".encode())
