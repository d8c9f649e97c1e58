"""Notes and leases as files: their names say all, only their owner may read them, and none stays open."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.kv.ssd.leases import ChatLeases, end_leases, is_lease, lease_path
from engine.kv.ssd.notes import Notes, digest_of, is_note, sync

CHATS = ("a", "é", "", "\ud800", "a chat\nof two lines")
"""Any text that a caller may have given."""


def open_files() -> int:
    return len(list(Path("/dev/fd").iterdir()))


def test_each_chat_has_a_name_of_its_own_whatever_it_is_called(tmp_path: Path) -> None:
    digests = {digest_of(chat) for chat in CHATS}
    assert len(digests) == len(CHATS)
    assert all(is_note(Notes(tmp_path).path_of(digest).name) for digest in digests)
    assert all(is_lease(lease_path(tmp_path, digest).name) for digest in digests)


@pytest.mark.parametrize("name", ["{}.forgotten~", "x{}.forgotten", "{}.Forgotten", "{}0.forgotten", "lock"])
def test_what_has_another_name_is_no_note(name: str, tmp_path: Path) -> None:
    name = name.format(digest_of("a"))
    (tmp_path / name).touch()
    assert not is_note(name)
    assert Notes(tmp_path).read() == set()


@pytest.mark.parametrize("name", ["{}.lease~", "x{}.lease", "{}.lease.tmp", ".{}.lease", ".{}.lease.tmp~"])
def test_what_has_another_name_is_no_lease(name: str, tmp_path: Path) -> None:
    name = name.format(digest_of("a"))
    (tmp_path / name).touch()
    assert not is_lease(name)
    end_leases(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_notes_are_written_again_and_leave_nothing_open(tmp_path: Path) -> None:
    notes, digests, before = Notes(tmp_path), {digest_of(chat) for chat in CHATS}, open_files()
    for _ in range(2):
        notes.write(digests)
        notes.sync()
        sync(notes.path_of(digest_of("a")))
    assert notes.read() == digests
    assert open_files() == before
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}
    for _ in range(2):
        notes.remove(digests)
    assert notes.read() == set()


def test_what_is_no_file_is_no_note(tmp_path: Path) -> None:
    notes = Notes(tmp_path)
    notes.path_of(digest_of("a")).mkdir()
    (tmp_path / "elsewhere").touch()
    notes.path_of(digest_of("b")).symlink_to(tmp_path / "elsewhere")
    assert notes.read() == set()
    assert Notes(tmp_path / "elsewhere").read() == set()
    assert Notes(tmp_path / "nowhere").read() == set()


def test_leases_are_their_owners_and_leave_nothing_open(tmp_path: Path) -> None:
    folder, before = tmp_path / "new" / "cache", open_files()
    leases = ChatLeases(folder)
    for chat in ("a", "b", "c"):
        leases.take(chat)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    end_leases(folder)  # they are held
    assert {path.name for path in folder.iterdir()} == {lease_path(folder, digest_of(c)).name for c in "abc"}
    leases.give_back("a")
    leases.give_back("a")
    leases.give_back("another")
    leases.close()
    assert open_files() == before
    end_leases(folder)
    assert Notes(folder).read() == {digest_of(chat) for chat in "abc"}
    assert open_files() == before


def test_those_that_are_held_keep_no_others(tmp_path: Path) -> None:
    leases, held, left = (
        ChatLeases(tmp_path),
        [f"held {n}" for n in range(9)],
        [f"left {n}" for n in range(9)],
    )
    for one, other in zip(held, left, strict=True):
        leases.take(one)
        lease_path(tmp_path, digest_of(other)).touch()
    end_leases(tmp_path)
    assert Notes(tmp_path).read() == set(map(digest_of, left))
    leases.close()


def test_a_lease_that_cannot_be_written_is_said_and_stops_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    before = open_files()
    for folder in (tmp_path / "file", tmp_path / "file" / "cache"):
        ChatLeases(folder).take("a")
        end_leases(folder)
        assert str(folder) in caplog.text
    in_the_way = tmp_path / "cache"
    lease_path(in_the_way, digest_of("a")).mkdir(parents=True)
    ChatLeases(in_the_way).take("a")
    assert str(in_the_way) in caplog.text
    assert open_files() == before
    ChatLeases(None).take("a")
