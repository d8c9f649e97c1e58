"""Requests that fail, in words; a local hub misbehaves on command."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import huggingface_hub
import pytest

from app.hub import client as client_module
from app.hub.client import HubClient
from app.hub.errors import AccessNeeded, BadAnswer, BadToken, HubError, NotFound, RateLimited, Unreachable
from tests.hub.faults import Fault
from tests.hub.fixtures import HubHome
from tests.hub.repos import HubFile, Repo
from tests.hub.server import HubServer

OPEN = Repo(
    "org/open",
    {"config.json": b"{}", "empty": HubFile(b"", lfs=True), "model.gguf": HubFile(b"GGUF" * 1000, lfs=True)},
)
GATED = Repo("org/gated", {"config.json": b"{}"}, gated="manual")
SECRET = "hf_aVerySecretToken"


@pytest.fixture
def hub(hub_home: HubHome) -> Iterator[HubServer]:
    """A hub, and the client at it."""
    with HubServer([OPEN, GATED], tokens={"hf_good": {"name": "me", "may_read": {"org/gated"}}}) as server:
        hub_home.connect(server)
        yield server


def failure(client: HubClient, path: str = "/api/models", repo: str | None = None) -> HubError:
    """What asking raises: one line without a secret in it."""
    with pytest.raises(HubError) as raised:
        client.data(path, "", repo or "the search", repo)
    message = str(raised.value)
    assert message.isprintable()
    assert SECRET not in f"{message}{raised.value!r}{raised.value.__cause__!r}"
    return raised.value


def test_data_and_the_beginning_of_a_file_arrive(hub: HubServer) -> None:
    answer, following = HubClient().data("/api/models/org/open", "", "org/open", "org/open")
    assert (answer["id"], following) == ("org/open", "")
    assert HubClient().begin("org/open", "main", "model.gguf", 10) == b"GGUFGGUFGG"
    assert hub.bytes_sent("org/open", "model.gguf") == 10
    assert HubClient().begin("org/open", "main", "config.json", 10) == b"{}"
    assert HubClient().begin("org/open", "main", "empty", 10) == b""


def test_a_server_that_ignores_ranges_is_not_read_to_the_end(hub: HubServer) -> None:
    hub.faults.add(Fault("model.gguf", "ignore_range"))
    assert HubClient().begin("org/open", "main", "model.gguf", 10) == b"GGUFGGUFGG"


def test_only_what_was_asked_for_is_requested_and_no_token_leaves_the_hub(hub: HubServer) -> None:
    HubClient(lambda: "hf_good").begin("org/open", "main", "model.gguf", 10)
    hubs, cdn = hub.requests
    assert hubs.path == "/org/open/resolve/main/model.gguf"
    assert hubs.headers["user-agent"].startswith("mlxr/")
    assert cdn.path.startswith("/cdn/")
    assert "authorization" not in cdn.headers


def test_a_hub_that_is_switched_off_is_named(hub: HubServer) -> None:
    hub.is_offline = True
    error = failure(HubClient())
    assert isinstance(error, Unreachable)
    assert hub.url in str(error)
    assert "HF_ENDPOINT" in str(error)


def test_hf_hub_offline_is_said(hub_home: HubHome) -> None:
    huggingface_hub.close_session()
    error = failure(HubClient(endpoint="http://127.0.0.1:9"))
    assert isinstance(error, Unreachable)
    assert "HF_HUB_OFFLINE" in str(error)


@pytest.mark.usefixtures("hub")
@pytest.mark.parametrize(
    ("endpoint", "word"),
    [
        ("http://no-such-host.invalid", "offline"),
        ("mirror.example", "https://"),
        ("ftp://mirror.example", "https://"),
        ("http://name:secret@[broken", "address"),
    ],
)
def test_an_endpoint_that_is_nowhere_or_none(
    endpoint: str, word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nowhere(*_: object, **__: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", nowhere)
    error = failure(HubClient(endpoint=endpoint))
    assert isinstance(error, Unreachable)
    assert word in str(error)
    assert "secret" not in str(error)


@pytest.mark.parametrize(
    ("headers", "seconds", "words"),
    [
        (b"Retry-After: 45\r\n", 45, "in 45 seconds"),
        (b'RateLimit: "api";r=0;t=280\r\n', 280, "in 5 minutes"),
        (b"", None, "in a few minutes"),
    ],
)
@pytest.mark.usefixtures("hub")
def test_too_many_requests_say_when_to_come_back(headers: bytes, seconds: int | None, words: str) -> None:
    with answering(b"HTTP/1.1 429 Too Many Requests\r\n" + headers + b"Content-Length: 0\r\n\r\n") as url:
        error = failure(HubClient(endpoint=url))
    assert isinstance(error, RateLimited)
    assert error.retry_s == seconds
    assert words in str(error)


def test_a_refused_request_is_not_repeated(hub: HubServer) -> None:
    hub.faults.add(Fault("/api/models", "status", status=503, times=None))
    error = failure(HubClient())
    assert isinstance(error, BadAnswer)
    assert "503" in str(error)
    assert len(hub.requests) == 1


def test_a_web_page_instead_of_data(hub: HubServer) -> None:
    hub.faults.add(Fault("*", "html", times=None))
    for ask in (
        lambda: HubClient().data("/api/models", "", "the search"),
        lambda: HubClient().begin("org/open", "main", "config.json", 100),
    ):
        with pytest.raises(BadAnswer, match="sign in"):
            ask()


@pytest.mark.usefixtures("hub")
@pytest.mark.parametrize("body", [b"{", b"", b"[" * 100_000, b"\xff\xfe"])
def test_an_answer_that_is_no_json(body: bytes) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
    with answering(head + body) as url:
        assert isinstance(failure(HubClient(endpoint=url)), BadAnswer)


def test_an_answer_without_end_is_not_kept(hub: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "MOST_JSON", 100)
    assert isinstance(failure(HubClient()), BadAnswer)


def test_a_server_that_is_silent_is_left(hub: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = client_module.READ_S
    monkeypatch.setattr(client_module, "READ_S", 0.2)
    hub.faults.add(Fault("config.json", "stall", at=1))
    began = time.monotonic()
    with pytest.raises(Unreachable, match="in time"):
        HubClient().begin("org/open", "main", "config.json", 10)
    assert time.monotonic() - began < usual


def test_a_server_that_trickles_is_left(hub: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "WHOLE_S", 0.2)
    hub.faults.add(Fault("model.gguf", "slow", rate=400))  # ten seconds: it is not whole before one looks
    with pytest.raises(Unreachable, match="in time"):
        HubClient().begin("org/open", "main", "model.gguf", 4000)


@pytest.mark.usefixtures("hub")
def test_a_gated_repository_says_where_to_accept_its_licence() -> None:
    path = "/api/models/org/gated/auth-check"
    for token, words in ((None, "then give MLXR a token"), (SECRET, "HF_ENDPOINT")):
        error = failure(HubClient(lambda token=token: token), path, "org/gated")
        assert isinstance(error, AccessNeeded | BadToken)
        assert words in str(error)
        if isinstance(error, AccessNeeded):
            assert error.url.endswith("/org/gated")


@pytest.mark.usefixtures("hub")
def test_what_does_not_exist_is_said() -> None:
    error = failure(HubClient(), "/api/models/org/none", "org/none")
    assert isinstance(error, NotFound)
    assert "org/none" in str(error)
    with pytest.raises(NotFound, match=r"no\.json of org/open"):
        HubClient().begin("org/open", "main", "no.json", 10)
    with pytest.raises(NotFound, match="no such revision: org/open at none"):
        HubClient().data("/api/models/org/open/revision/none", "", "org/open at none", "org/open")


@pytest.mark.usefixtures("hub")
def test_a_proxy_is_used_and_named_without_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    with answering(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n") as url:
        monkeypatch.setenv("HTTP_PROXY", url.replace("//", f"//me:{SECRET}@"))
        monkeypatch.setenv("HTTPS_PROXY", url.replace("//", f"//me:{SECRET}@"))
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        for endpoint in ("http://far.example", "https://far.example"):
            huggingface_hub.close_session()
            error = failure(HubClient(endpoint=endpoint))
            assert isinstance(error, Unreachable)
            assert url in str(error)
    huggingface_hub.close_session()


@pytest.mark.usefixtures("hub")
@pytest.mark.parametrize(
    ("proxy", "words"),
    [
        ("socks5://me:{secret}@127.0.0.1:9", "speaks SOCKS"),
        ("http://me:{secret}@127.0.0.1:9", "the proxy http://127.0.0.1:9 refuses connections"),
        ("foo://me:{secret}@127.0.0.1:9", "the proxy foo://127.0.0.1:9 does not let"),
    ],
)
def test_a_proxy_that_does_not_work_is_blamed(
    proxy: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_PROXY", "no_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", proxy.format(secret=SECRET))
    huggingface_hub.close_session()
    error = failure(HubClient(endpoint="http://far.example"))
    huggingface_hub.close_session()
    assert isinstance(error, Unreachable)
    assert words in str(error)


@contextmanager
def answering(answer: bytes) -> Iterator[str]:
    """A server that sends `answer` to whatever comes; its address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.05)
        is_over = threading.Event()

        def serve() -> None:
            while not is_over.is_set():
                try:
                    connection, _ = listener.accept()
                except TimeoutError:
                    continue
                with connection:
                    connection.settimeout(5)
                    connection.recv(1 << 16)
                    connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            is_over.set()
            thread.join()
