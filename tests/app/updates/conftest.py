"""A server of releases on this machine, over TLS, with keys that are made for each test."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from nacl.signing import SigningKey

from app.updates.channel import Channel
from app.updates.envelope import sealed
from app.updates.manifest import Artefact, Manifest, Notes, encoded
from app.updates.memory import MemoryFile

PATIENCE = 60.0
CERTIFICATE = Path(__file__).with_name("localhost.pem")
"""Of `localhost`, with its key: for tests alone, trusted by nobody."""

MANIFEST = Manifest(
    date=datetime(2026, 11, 22, 10, 30, tzinfo=UTC),
    version="0.2.0",
    notes=(Notes("0.2.0", "2026-11-22", "### Added\n- Wings"), Notes("0.1.0", "2026-10-01", "First")),
    artefacts=(
        Artefact("MLXR-macos14-arm64.dmg", 100_000_000, "a" * 64, "macos14-arm64", "14.0"),
        Artefact("MLXR-macos26-arm64.dmg", 110_000_000, "b" * 64, "macos26-arm64", "26.0"),
        Artefact("MLXR-linux-x86_64.tar.xz", 90_000_000, "c" * 64, "linux-x86_64"),
    ),
)


@dataclass
class Site:
    """What the server answers, and what it was asked."""

    port: int
    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict[str, str])
    is_chunked: bool = False
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list[tuple[str, dict[str, str]]])
    gate: threading.Event = field(default_factory=threading.Event)
    """An answer waits until it is set, as it is from the start."""

    @property
    def address(self) -> str:
        return f"https://localhost:{self.port}/releases.json"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    site: Site

    def do_GET(self) -> None:
        self.site.asked.append((self.path, dict(self.headers.items())))
        self.site.gate.wait(PATIENCE)
        self.send_response(self.site.status)
        for name, value in self.site.headers.items():
            self.send_header(name, value)
        if self.site.is_chunked:
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(self.site.body), self.site.body))
        else:
            self.send_header("Content-Length", str(len(self.site.body)))
            self.end_headers()
            self.wfile.write(self.site.body)

    def log_message(self, format: str, *args: object) -> None:
        """Silent."""


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("NO_PROXY", "localhost")
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)

    class OwnHandler(Handler):
        """With a site of its own."""

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: object, client_address: object) -> None:
            """A client that leaves is no error of the server's."""

    server = Server(("127.0.0.1", 0), OwnHandler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    OwnHandler.site = Site(server.server_address[1])
    OwnHandler.site.gate.set()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield OwnHandler.site
    OwnHandler.site.gate.set()
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def trusted() -> ssl.SSLContext:
    """Trusts the site's certificate."""
    return ssl.create_default_context(cafile=str(CERTIFICATE))


@pytest.fixture
def key() -> SigningKey:
    return SigningKey.generate()


@pytest.fixture
def channel(site: Site, key: SigningKey) -> Channel:
    """The site's, with its key; the site serves MANIFEST."""
    site.body = sealed(encoded(MANIFEST), [key])
    return Channel(site.address, f"https://localhost:{site.port}/download.html", (public(key),))


@pytest.fixture
def memory(tmp_path: Path) -> MemoryFile:
    return MemoryFile(tmp_path / "home" / "updates.json")


def public(key: SigningKey) -> str:
    return bytes(key.verify_key).hex()
