"""Ranges as HTTP has them, and every misbehaviour as it was ordered, over plain HTTP."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import huggingface_hub
import pytest
from huggingface_hub.errors import HfHubHTTPError

from tests.hub.faults import Fault
from tests.hub.fixtures import HubHome
from tests.hub.repos import HubFile, Repo
from tests.hub.server import HubServer

WEIGHTS = random.Random(2).randbytes(300_000)
MODEL = Repo("org/name", {"config.json": b"{}", "w.gguf": HubFile(WEIGHTS, lfs=True)})
URL = "/org/name/resolve/main/w.gguf"


@pytest.fixture
def hub(hub_home: HubHome) -> Iterator[HubServer]:
    with HubServer([MODEL]) as hub:
        hub_home.connect(hub)
        yield hub


@pytest.fixture
def client(hub: HubServer) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=hub.url, follow_redirects=True, timeout=60) as client:
        yield client


def received(client: httpx2.Client, **headers: str) -> tuple[bytes, bool]:
    """What arrives of the weights, and whether it was all that was promised."""
    got = bytearray()
    with client.stream("GET", URL, headers=headers) as response:
        try:
            for chunk in response.iter_raw():
                got += chunk
        except httpx2.RemoteProtocolError:
            return bytes(got), False
    return bytes(got), True


@pytest.mark.parametrize(
    ("asked", "start", "stop"),
    [
        ("bytes=0-9", 0, 10),
        ("bytes=100-", 100, 300_000),
        ("bytes=-5", 299_995, 300_000),
        ("bytes=5-999999", 5, 300_000),
    ],
)
def test_a_range_is_served_as_asked(client: httpx2.Client, asked: str, start: int, stop: int) -> None:
    response = client.get(URL, headers={"Range": asked})
    assert response.status_code == 206
    assert response.content == WEIGHTS[start:stop]
    assert response.headers["Content-Range"] == f"bytes {start}-{stop - 1}/300000"


def test_a_range_past_the_end_is_refused(client: httpx2.Client) -> None:
    response = client.get(URL, headers={"Range": "bytes=300000-"})
    assert (response.status_code, response.headers["Content-Range"]) == (416, "bytes */300000")


def test_if_range_wants_the_etag_of_the_bytes_themselves(client: httpx2.Client) -> None:
    head = client.head(URL)
    etag, linked = head.headers["ETag"], client.head(URL, follow_redirects=False).headers["X-Linked-Etag"]
    assert linked == f'"{HubFile(WEIGHTS).sha256}"' != etag
    for proof, status in [(etag, 206), (head.headers["Last-Modified"], 206), (linked, 200), ('"old"', 200)]:
        response = client.get(URL, headers={"Range": "bytes=7-", "If-Range": proof})
        assert (response.status_code, len(response.content)) == (
            status,
            299_993 if status == 206 else 300_000,
        )


def test_a_cut_ends_the_stream_at_its_byte_and_only_as_often_as_said(
    hub: HubServer, client: httpx2.Client
) -> None:
    hub.faults.add(Fault("w.gguf", "cut", at=100_001, times=2, skip=1))
    assert received(client) == (WEIGHTS, True)
    assert received(client) == (WEIGHTS[:100_001], False)
    assert received(client, Range="bytes=200000-") == (
        WEIGHTS[200_000:],
        True,
    )  # it lies outside: not counted
    assert received(client, Range="bytes=100001-") == (b"", False)
    assert received(client, Range="bytes=100001-") == (WEIGHTS[100_001:], True)
    sent = [served.bytes_sent for served in hub.requests if served.on_cdn]
    assert sent == [300_000, 100_001, 100_000, 0, 199_999]
    assert hub.bytes_sent("org/name", "w.gguf") == sum(sent)


def test_a_stalled_answer_goes_on_when_released(hub: HubServer, client: httpx2.Client) -> None:
    fault = Fault("*.gguf", "stall", at=70_000)
    hub.faults.add(fault)
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(received, client)
        hub.faults.wait(fault)
        assert hub.requests[-1].bytes_sent == 70_000
        assert not answer.done()
        hub.faults.release()
        assert answer.result() == (WEIGHTS, True)


def test_a_stall_ends_by_itself_or_with_the_hub(hub: HubServer, client: httpx2.Client) -> None:
    hub.faults.add(Fault("w.gguf", "stall", seconds=0.05), Fault("w.gguf", "stall", at=9, skip=1))
    assert received(client) == (WEIGHTS, True)
    with client.stream("GET", URL) as response:
        assert next(response.iter_raw()) == WEIGHTS[:9]
        hub.is_offline = True  # returns although a stall has no end


def test_a_client_that_waits_too_long_gives_up(hub: HubServer, client: httpx2.Client) -> None:
    hub.faults.add(Fault("w.gguf", "stall"))
    with pytest.raises(httpx2.ReadTimeout):
        client.get(URL, timeout=0.1)
    hub.faults.release()


def test_a_wrong_byte_is_wrong_once(hub: HubServer, client: httpx2.Client) -> None:
    hub.faults.add(Fault("w.gguf", "wrong_byte", at=65_536))
    spoiled = client.get(URL).content
    assert [i for i in range(len(WEIGHTS)) if spoiled[i] != WEIGHTS[i]] == [65_536]
    assert client.get(URL).content == WEIGHTS


def test_a_file_that_changed_has_another_etag_and_is_not_resumed(
    hub: HubServer, client: httpx2.Client
) -> None:
    before = client.head(URL).headers["ETag"]
    hub.faults.add(Fault("w.gguf", "change_etag"))
    response = client.get(URL, headers={"Range": "bytes=9-", "If-Range": before})
    other = response.content
    assert (response.status_code, len(other)) == (200, len(WEIGHTS))
    assert other != WEIGHTS
    assert response.headers["ETag"] != before
    info = huggingface_hub.model_info("org/name", files_metadata=True)
    sums = {file.lfs.sha256 for file in info.siblings or () if file.lfs}
    assert sums == {HubFile(other).sha256}
    assert info.sha == MODEL.sha  # an unannounced change; `HubServer.update` is the announced one
    assert client.get(URL).content == other


def test_a_file_can_change_while_it_is_sent(hub: HubServer, client: httpx2.Client) -> None:
    hub.faults.add(Fault("w.gguf", "change_etag", at=1000))
    torn = client.get(URL).content
    new = client.get(URL).content
    assert torn == WEIGHTS[:1000] + new[1000:]
    assert new[:1000] != WEIGHTS[:1000]


def test_a_range_can_be_ignored(hub: HubServer, client: httpx2.Client) -> None:
    hub.faults.add(Fault("w.gguf", "ignore_range"))
    response = client.get(URL, headers={"Range": "bytes=100-"})
    assert (response.status_code, response.content) == (200, WEIGHTS)


def test_a_file_can_end_early_with_a_length_that_agrees(hub: HubServer, client: httpx2.Client) -> None:
    hub.faults.add(Fault("w.gguf", "short_length", at=10, times=2))
    response = client.get(URL)
    assert (response.headers["Content-Length"], response.content) == ("10", WEIGHTS[:10])
    response = client.get(URL, headers={"Range": "bytes=4-"})
    assert (response.headers["Content-Range"], response.content) == ("bytes 4-9/300000", WEIGHTS[4:10])


def test_statuses_come_for_as_many_requests_as_said(hub: HubServer, client: httpx2.Client) -> None:
    busy = Fault("/api/models", "status", status=429, retry_after=7, times=2)
    hub.faults.add(busy, Fault("w.gguf", "status", status=500, method="GET"))
    answers = [client.get("/api/models") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [429, 429, 200]
    assert answers[0].headers["Retry-After"] == "7"
    assert hub.faults.fired(busy) == 2
    assert client.head(URL).status_code == 200
    assert client.get(URL).status_code == 500
    assert client.get("/org/name/resolve/main/config.json").content == b"{}"


def test_the_real_client_tries_again_after_a_429(hub: HubServer) -> None:
    hub.faults.add(Fault("/api/models*", "status", status=429, retry_after=0, times=None))
    with pytest.raises(HfHubHTTPError, match="429"):
        huggingface_hub.model_info("org/name")
    hub.faults.clear()
    hub.faults.add(Fault("/api/models", "status", status=429, retry_after=0))
    assert [model.id for model in huggingface_hub.list_models()] == ["org/name"]
    assert [served.status for served in hub.requests] == [429, 429, 200]


def test_the_real_client_downloads_through_a_cut(hub: HubServer) -> None:
    hub.faults.add(Fault("w.gguf", "cut", at=1000))
    path = huggingface_hub.hf_hub_download("org/name", "w.gguf")
    assert Path(path).read_bytes() == WEIGHTS
    assert hub.bytes_sent("org/name", "w.gguf") >= len(WEIGHTS)


def test_a_page_comes_where_json_was_asked_for(hub: HubServer, client: httpx2.Client) -> None:
    hub.faults.add(Fault("/api/*", "html"))
    response = client.get("/api/models")
    assert (response.status_code, response.headers["Content-Type"]) == (200, "text/html")
    with pytest.raises(ValueError, match="Expecting value"):
        response.json()


def test_redirects_can_lead_nowhere(hub: HubServer, client: httpx2.Client) -> None:
    hub.faults.add(Fault("*", "redirect_loop", times=None))
    with pytest.raises(httpx2.TooManyRedirects):
        client.get(URL)


def test_a_connection_can_end_without_a_word(hub: HubServer, client: httpx2.Client) -> None:
    hub.faults.add(Fault("/cdn/*", "drop"))
    with pytest.raises(httpx2.RemoteProtocolError):
        client.get(URL)
    assert [served.status for served in hub.requests] == [302, 0]
    assert client.get(URL).content == WEIGHTS


def test_a_slow_answer_keeps_its_rate(hub: HubServer, client: httpx2.Client) -> None:
    hub.faults.add(Fault("w.gguf", "slow", rate=1_000_000))
    began = time.monotonic()
    assert client.get(URL).content == WEIGHTS
    assert time.monotonic() - began >= 0.2  # 0.3 s of bytes; the last piece is not waited for by the client


def test_waiting_for_what_does_not_happen_ends(hub: HubServer) -> None:
    with pytest.raises(TimeoutError, match="did not happen"):
        hub.faults.wait(Fault("w.gguf", "cut"), timeout=0.01)


def test_many_requests_at_once_are_all_answered_and_counted(hub: HubServer, client: httpx2.Client) -> None:
    def fetch(start: int) -> bytes:
        headers = {"Range": f"bytes={start}-{start + 9_999}"}
        return client.get(URL, headers=headers).content

    with ThreadPoolExecutor(8) as pool:
        parts = list(pool.map(fetch, range(0, 300_000, 10_000)))
    assert b"".join(parts) == WEIGHTS
    assert hub.bytes_sent("org/name", "w.gguf") == 300_000
