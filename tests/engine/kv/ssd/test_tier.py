"""The SSD tier on a real disk: what it takes, writes and finds again, and what it never serves."""

from __future__ import annotations

import os
import shutil
import stat
import threading
from collections.abc import Generator
from pathlib import Path
from queue import Queue

import pytest

from engine.kv.page_data import ROOT_KEY
from engine.kv.ssd import folder as ssd_folder
from engine.kv.ssd.folder import SsdFolder
from engine.kv.stores import Room
from tests.engine.kv.spilled import IDENTITY, OTHER, assert_holds, pages, read, spilled
from tests.engine.kv.ssd.tiers import chain, file_size, found, held_up, opened, page_files, stored


def test_pages_come_back_from_files_in_this_run_and_the_next(tmp_path: Path) -> None:
    one, two = chain(2)
    tier = opened(tmp_path)
    assert not tier.find(one.keys[0])
    assert read(tier, one.keys, one.tokens) is None
    stored(tier, one, two)
    for again in (tier, opened(tmp_path)):
        assert found(again, [one, two]) == [True, True]
        assert_holds(read(again, one.keys, one.tokens), one.keys)
        assert_holds(read(again, two.keys[1:3], two.tokens[1:3]), two.keys[1:3])
        both = one.keys[2:] + two.keys[:3]
        assert_holds(read(again, both, one.tokens[2:] + two.tokens[:3]), both)
        assert read(again, [*one.keys, b"?" * 16], [*one.tokens, (1, 2, 3, 4)]) is None
    assert len(page_files(tmp_path)) == 2
    assert tier.written_pages == 8
    assert tier.usage.total_bytes == sum(file.stat().st_size for file in page_files(tmp_path))


def test_a_branch_is_read_from_the_file_of_its_trunk_and_its_own(tmp_path: Path) -> None:
    trunk = chain(1)[0]
    branch = spilled(trunk.keys[1], pages(500, 3))
    keys, tokens = trunk.keys[:2] + branch.keys, trunk.tokens[:2] + branch.tokens
    tier = opened(tmp_path)
    with SsdFolder(tmp_path, IDENTITY.digest, shutil.disk_usage).locked():  # the writer must wait
        assert tier.put(trunk)
        assert tier.put(branch)
        assert_holds(read(tier, keys, tokens), keys)
    assert tier.flush(60)
    assert_holds(read(tier, keys, tokens), keys)


@pytest.fixture
def no_umask() -> Generator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    """Permissions of a folder and of all in it."""
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in (folder, *folder.rglob("*"))}


@pytest.mark.usefixtures("no_umask")
def test_pages_are_their_owners_alone_whatever_the_umask(tmp_path: Path) -> None:
    run = chain(1)[0]
    home = tmp_path / "data" / "kv"
    stored(opened(home), run)
    file = f"{run.keys[-1].hex()}.safetensors"
    private = {"kv": 0o700, IDENTITY.digest: 0o700, file: 0o600, "ledger.json": 0o600, "lock": 0o600}
    assert modes(home) == private


def test_what_older_versions_left_open_is_closed_and_nothing_else(tmp_path: Path) -> None:
    run, other = chain(1)[0], tmp_path / "kept" / "notes.txt"
    home, shared = tmp_path / "kv", tmp_path / "kept"
    for folder in (home, shared):
        stored(opened(folder), run)
        for path in (folder, *folder.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
    other.write_text("of somebody else")
    other.chmod(0o644)
    for folder in (home, shared):
        assert found(opened(folder), [run]) == [True]
    file = f"{run.keys[-1].hex()}.safetensors"
    private = {IDENTITY.digest: 0o700, file: 0o600, "ledger.json": 0o600, "lock": 0o600}
    assert modes(home) == {"kv": 0o700, **private}
    assert modes(shared) == {"kept": 0o755, "notes.txt": 0o644, **private}


def test_what_a_link_leads_to_is_not_closed(tmp_path: Path) -> None:
    run, theirs = chain(1)[0], tmp_path / "theirs"
    stored(opened(tmp_path / "kv"), run)
    theirs.write_text("of somebody else")
    theirs.chmod(0o644)
    (page_files(tmp_path / "kv")[0].parent / f"{'ab' * 16}.safetensors").symlink_to(theirs)
    tier = opened(tmp_path / "kv")
    assert stat.S_IMODE(theirs.stat().st_mode) == 0o644
    assert tier.usage.total_bytes == file_size(run)


def test_a_run_is_found_while_it_waits_and_the_queue_is_bounded(tmp_path: Path) -> None:
    runs = chain(4)
    tier = opened(tmp_path, queue_bytes=3 * runs[0].data.nbytes)
    with SsdFolder(tmp_path, IDENTITY.digest, shutil.disk_usage).locked():  # the writer must wait
        assert [tier.put(run) for run in runs] == [True, True, True, False]
        assert found(tier, runs) == [True, True, True, False]
        both = runs[0].keys + runs[1].keys
        assert_holds(read(tier, both, runs[0].tokens + runs[1].tokens), both)
        assert read(tier, runs[0].keys, runs[1].tokens) is None
        assert not tier.flush(0.01)
        assert page_files(tmp_path) == []
    assert tier.flush(60)
    assert len(page_files(tmp_path)) == 3


def test_the_queue_has_the_place_again_of_what_is_written_or_replaced(tmp_path: Path) -> None:
    runs = chain(6)
    tier = opened(tmp_path, queue_bytes=3 * runs[0].data.nbytes)
    for some in (runs[:3], runs[3:]):
        with SsdFolder(tmp_path, IDENTITY.digest, shutil.disk_usage).locked():  # the writer must wait
            for run in some:
                assert tier.put(run)
                tier.claim(run.keys, "another")
                tier.claim(run.keys, "a third")
            assert tier.waiting_pages == 12
            assert not tier.put(chain(1, 9000)[0])
        assert tier.flush(60)
        assert tier.waiting_pages == 0
    assert found(tier, runs) == [True] * 6


def test_the_writer_s_thread_ends_with_it(tmp_path: Path) -> None:
    def writers() -> list[threading.Thread]:
        return [thread for thread in threading.enumerate() if thread.name == "mlxr-ssd"]

    before, tier = writers(), opened(tmp_path)
    stored(tier, *chain(1))
    (writer,) = (thread for thread in writers() if thread not in before)
    tier.close(60)
    assert not writer.is_alive()


def test_of_pages_that_will_be_read_the_system_is_asked_for_each_file_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, runs = Queue[Path](), chain(3)
    monkeypatch.setattr("engine.kv.ssd.files.fetch", asked.put)
    tier = opened(tmp_path)
    stored(tier, *runs)
    tier.expect([*runs[0].keys[2:], *runs[1].keys, b"?" * 16])
    expected = [tmp_path / IDENTITY.digest / f"{run.keys[-1].hex()}.safetensors" for run in runs[:2]]
    assert [asked.get(timeout=60) for _ in expected] == expected
    tier.close(60)
    assert asked.empty()


def test_a_run_that_is_larger_than_the_queue_is_written_alone(tmp_path: Path) -> None:
    one, two = chain(2)
    size = one.data.nbytes
    tier = opened(tmp_path, queue_bytes=size - 1)
    with SsdFolder(tmp_path, IDENTITY.digest, shutil.disk_usage).locked():  # the writer must wait
        assert tier.put(one)
        assert tier.room(size, tier.tick()) is Room.LATER
        assert not tier.put(two)
    assert tier.flush(60)
    stored(tier, two)
    assert found(tier, [one, two]) == [True, True]


def test_at_the_end_what_cannot_be_written_in_time_is_dropped_whole(tmp_path: Path) -> None:
    tier = opened(tmp_path)
    run = chain(1)[0]
    with SsdFolder(tmp_path, IDENTITY.digest, shutil.disk_usage).locked():
        assert tier.put(run)
        tier.close(0.05)
        assert not tier.put(run)
    tier.close(60)
    assert not tier.find(run.keys[0])
    assert list(tmp_path.rglob("*.safetensors")) + list(tmp_path.rglob(".*.tmp")) == []


def test_at_the_end_what_can_be_written_is(tmp_path: Path) -> None:
    tier = opened(tmp_path)
    runs = chain(20)
    assert all(tier.put(run) for run in runs)
    tier.close(60)
    assert found(opened(tmp_path), runs) == [True] * 20


@pytest.mark.parametrize("is_chat", [False, True])
def test_a_run_that_was_forgotten_while_it_was_written_is_not_there(
    tmp_path: Path, is_chat: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, other = spilled(ROOT_KEY, pages(0, 3)), spilled(ROOT_KEY, pages(50, 3), ("else",))
    monkeypatch.setattr("engine.kv.ssd.folder._LOCK_S", 0.0)
    has_begun, may_end = held_up(monkeypatch)
    tier = opened(tmp_path)
    assert tier.put(run)
    assert has_begun.wait(60)
    assert tier.put(other)
    if is_chat:
        tier.forget_chat("chat")
    else:
        tier.quarantine(run.keys[1:2])
    assert not tier.find(run.keys[0])
    may_end.set()
    tier.close(60)
    assert [path.stem for path in page_files(tmp_path)] == [other.keys[-1].hex()]


def test_a_run_whose_chat_is_forgotten_before_it_is_written_never_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed behind the write, and before the file is removed again, nobody would know of it."""
    tier, has_begun, may_go, written = opened(tmp_path), threading.Event(), threading.Event(), list[Path]()
    wait_for = ssd_folder._wait_for  # pyright: ignore[reportPrivateUsage]

    def waiting(lock: int, seconds: float) -> None:
        if threading.current_thread().name == "mlxr-ssd":
            has_begun.set()
            assert may_go.wait(10)
        wait_for(lock, seconds)

    monkeypatch.setattr(ssd_folder, "_wait_for", waiting)
    monkeypatch.setattr(SsdFolder, "write", lambda _self, path, _buffers: written.append(path))
    assert tier.put(chain(1)[0])
    assert has_begun.wait(10)
    tier.forget_chat("chat")
    tier.remove_forgotten()
    may_go.set()
    tier.close(10)
    assert (written, tier.written_pages) == ([], 0)


def test_the_same_hash_with_other_tokens_is_not_served(tmp_path: Path) -> None:
    run = chain(1)[0]
    tier = opened(tmp_path)
    stored(tier, run)
    tier.claim(run.keys, "late")
    other = (run.tokens[0], (9, 9, 9, 9), *run.tokens[2:])
    assert read(tier, run.keys, other) is None
    assert (tier.quarantined_files, tier.chat_bytes().keys()) == (0, {"chat", "late"})
    assert_holds(read(tier, run.keys, run.tokens), run.keys)  # whose file is right, and stays


def test_pages_of_another_model_are_not_found(tmp_path: Path) -> None:
    run = chain(1)[0]
    stored(opened(tmp_path), run)
    other = opened(tmp_path, OTHER)
    assert not other.find(run.keys[0])
    assert other.chat_bytes() == {}
    assert other.usage.total_bytes == file_size(run)  # but they take the same space
    moved = page_files(tmp_path)[0].rename(tmp_path / OTHER.digest)  # nor where they pretend to be its own
    moved.rename(tmp_path / "kept")
    (tmp_path / OTHER.digest).mkdir()
    intruder = (tmp_path / "kept").rename(tmp_path / OTHER.digest / f"{run.keys[-1].hex()}.safetensors")
    again = opened(tmp_path, OTHER)
    assert not again.find(run.keys[0])
    assert again.quarantined_files == 1
    assert not intruder.exists()


def test_flush_waits_for_a_write_that_nobody_wants_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (run,) = chain(1)
    has_begun, may_end = held_up(monkeypatch)
    tier = opened(tmp_path)
    assert tier.put(run)
    assert has_begun.wait(60)
    tier.quarantine(run.keys)
    assert not tier.flush(0.05)
    may_end.set()
    assert tier.flush(60)
    assert [path for path in tmp_path.rglob("*") if run.keys[-1].hex() in path.name] == []
    tier.close(60)
