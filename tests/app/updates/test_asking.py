"""Asking for updates: one request that says nothing of who asks, an answer that must be signed and new."""

from __future__ import annotations

import socket
import ssl
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from nacl.signing import SigningKey

from app.updates.asking import CANNOT, ask
from app.updates.channel import RELEASES, Channel
from app.updates.envelope import sealed
from app.updates.errors import CannotCheck, Offline, Refused
from app.updates.manifest import MOST_BYTES, encoded
from app.updates.memory import Memory, MemoryFile
from tests.app.updates.conftest import MANIFEST, Site, public


def test_one_request_that_tells_nothing_but_that_it_is_mlxr(
    site: Site, channel: Channel, memory: MemoryFile, trusted: ssl.SSLContext
) -> None:
    assert ask(channel, memory, trusted) == MANIFEST
    assert site.asked == [
        (
            "/releases.json",
            {
                "Host": f"localhost:{site.port}",
                "User-Agent": "MLXR",
                "Accept": "application/json",
                "Accept-Encoding": "identity",
                "Connection": "keep-alive",
            },
        )
    ]


def test_a_cookie_that_the_server_sets_is_not_brought_back(
    site: Site, channel: Channel, memory: MemoryFile, trusted: ssl.SSLContext
) -> None:
    site.headers = {"Set-Cookie": "who=you; Max-Age=99999", "ETag": '"you"'}
    ask(channel, memory, trusted)
    ask(channel, memory, trusted)
    assert site.asked[0] == site.asked[1]


def test_what_was_learnt_is_noted(channel: Channel, memory: MemoryFile, trusted: ssl.SSLContext) -> None:
    memory.note(ran="0.1.0")
    before = datetime.now(UTC)
    ask(channel, memory, trusted)
    noted = memory.read()
    assert (noted.seen, noted.newest, noted.ran) == (MANIFEST.date, "0.2.0", "0.1.0")
    assert noted.asked is not None
    assert before <= noted.asked <= datetime.now(UTC)


def test_an_older_list_is_not_taken_and_does_not_become_the_newest(
    site: Site, channel: Channel, memory: MemoryFile, key: SigningKey, trusted: ssl.SSLContext
) -> None:
    ask(channel, memory, trusted)
    old = replace(MANIFEST, date=MANIFEST.date - timedelta(seconds=1), version="0.3.0")
    site.body = sealed(encoded(old), [key])
    with pytest.raises(Refused, match="older than one that was seen"):
        ask(channel, memory, trusted)
    assert (memory.read().seen, memory.read().newest) == (MANIFEST.date, "0.2.0")


def test_the_same_list_and_a_later_one_are_taken(
    site: Site, channel: Channel, memory: MemoryFile, key: SigningKey, trusted: ssl.SSLContext
) -> None:
    later = replace(MANIFEST, date=MANIFEST.date + timedelta(days=1))
    assert [ask(channel, memory, trusted), ask(channel, memory, trusted)] == [MANIFEST, MANIFEST]
    site.body = sealed(encoded(later), [key])
    assert ask(channel, memory, trusted) == later


def test_a_list_of_another_key_is_not_taken(
    site: Site, channel: Channel, memory: MemoryFile, trusted: ssl.SSLContext
) -> None:
    site.body = sealed(encoded(MANIFEST), [SigningKey.generate()])
    with pytest.raises(Refused, match="not signed by a key that this MLXR knows"):
        ask(channel, memory, trusted)
    assert memory.read().newest == ""


def test_keys_change_while_both_are_in_use(
    site: Site, channel: Channel, memory: MemoryFile, key: SigningKey, trusted: ssl.SSLContext
) -> None:
    new = SigningKey.generate()
    site.body = sealed(encoded(MANIFEST), [key, new])
    for keys in ([key], [new], [new, key]):
        one = replace(channel, keys=tuple(map(public, keys)))
        assert ask(one, memory, trusted) == MANIFEST


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_nobody_is_sent_elsewhere(
    site: Site, channel: Channel, memory: MemoryFile, trusted: ssl.SSLContext, status: int
) -> None:
    site.status, site.headers = status, {"Location": f"https://127.0.0.1:{site.port}/other.json"}
    with pytest.raises(Refused, match="another address, which is not followed"):
        ask(channel, memory, trusted)
    assert [path for path, _ in site.asked] == ["/releases.json"]


@pytest.mark.parametrize("is_chunked", [False, True])
def test_more_than_a_list_can_hold_is_not_read(
    site: Site, channel: Channel, memory: MemoryFile, trusted: ssl.SSLContext, *, is_chunked: bool
) -> None:
    site.body, site.is_chunked = b" " * (MOST_BYTES + 1), is_chunked
    with pytest.raises(Refused, match="more than a list of releases can hold"):
        ask(channel, memory, trusted)


def test_an_answer_that_takes_for_ever_is_not_waited_for(
    channel: Channel, memory: MemoryFile, trusted: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.updates.fetching.MOST_SECONDS", 0.0)
    with pytest.raises(Refused, match="answers too slowly"):
        ask(channel, memory, trusted)


def test_other_answers_are_named(
    site: Site, channel: Channel, memory: MemoryFile, trusted: ssl.SSLContext
) -> None:
    site.status = 404
    with pytest.raises(Refused, match="HTTP 404"):
        ask(channel, memory, trusted)
    site.status, site.headers = 200, {"Content-Encoding": "gzip"}
    with pytest.raises(Refused, match="not asked for"):
        ask(channel, memory, trusted)
    site.headers, site.body = {}, b"<html>Please sign in</html>"
    with pytest.raises(Refused, match="no list of releases"):
        ask(channel, memory, trusted)


def test_http_is_not_asked(site: Site, channel: Channel, memory: MemoryFile) -> None:
    plain = replace(channel, manifest=site.address.replace("https", "http"))
    with pytest.raises(Refused, match="https alone"):
        ask(plain, memory)
    assert site.asked == []


def test_a_certificate_that_nobody_trusts_is_not_asked(
    site: Site, channel: Channel, memory: MemoryFile
) -> None:
    with pytest.raises(Refused, match="certificate that cannot be verified"):
        ask(channel, memory)
    assert site.asked == []


def test_offline_is_one_line_and_does_not_count_as_asked(
    channel: Channel, memory: MemoryFile, trusted: ssl.SSLContext
) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        away = replace(channel, manifest=f"https://localhost:{closed.getsockname()[1]}/releases.json")
        with pytest.raises(Offline, match=r"^localhost cannot be reached; check the network and try again$"):
            ask(away, memory, trusted)
    assert memory.read().is_due(datetime.now(UTC))


def test_where_the_network_is_forbidden_nobody_is_asked(
    site: Site, channel: Channel, memory: MemoryFile, trusted: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(Offline, match="HF_HUB_OFFLINE is set"):
        ask(channel, memory, trusted)
    assert site.asked == []
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    assert ask(channel, memory, trusted) == MANIFEST


def test_without_a_key_nobody_is_asked_and_it_is_said(
    site: Site, channel: Channel, memory: MemoryFile, trusted: ssl.SSLContext
) -> None:
    for lacking in (replace(channel, keys=()), replace(channel, manifest="")):
        with pytest.raises(CannotCheck, match=CANNOT):
            ask(lacking, memory, trusted)
    assert site.asked == []


def test_where_nothing_can_be_noted_nobody_is_asked(
    site: Site, channel: Channel, trusted: ssl.SSLContext, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CannotCheck, match="make room on the disk"):
        ask(channel, MemoryFile(tmp_path / "file" / "updates.json"), trusted)
    assert site.asked == []


def test_the_built_in_channel_is_whole_or_says_that_it_is_none() -> None:
    assert all(len(bytes.fromhex(key)) == 32 for key in RELEASES.keys)
    assert all(address.startswith("https://") for address in (RELEASES.manifest, RELEASES.page) if address)
    assert RELEASES.can_check == bool(RELEASES.keys and RELEASES.manifest)
    assert bool(RELEASES.manifest) == bool(RELEASES.page)


NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("asked", "is_due"),
    [
        (None, True),
        (NOW - timedelta(hours=23, minutes=59), False),
        (NOW - timedelta(days=1), True),
        (NOW, False),
        (NOW + timedelta(hours=1), True),  # the clock was set back
    ],
)
def test_a_day_lies_between_two_questions(asked: datetime | None, *, is_due: bool) -> None:
    assert Memory(asked=asked).is_due(NOW) == is_due


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"\xff", b'{"asked": 3, "seen": [], "ran": "x"}', b"[" * 100_000]
)
def test_a_memory_that_cannot_be_read_is_none(memory: MemoryFile, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "home" / "updates.json"
    path.parent.mkdir()
    path.write_bytes(content)
    assert memory.read() == Memory()
    memory.note(ran="0.1.0")
    assert memory.read() == Memory(ran="0.1.0")
