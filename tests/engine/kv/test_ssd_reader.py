"""The next file is read while the one before it is used, and what came of it meanwhile is not missed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.kv import ssd_files
from engine.kv.page_data import ROOT_KEY, SpilledRun
from engine.kv.page_file import StoredRun, read_run
from engine.kv.page_header import CacheIdentity
from engine.kv.ssd_settings import SsdSettings
from engine.kv.ssd_tier import SsdTier
from tests.engine.kv.spilled import IDENTITY, assert_holds, pages, spilled


@pytest.fixture
def runs() -> tuple[SpilledRun, SpilledRun]:
    first = spilled(ROOT_KEY, pages(0, 4))
    return first, spilled(first.keys[-1], pages(100, 4), ("other",))


@pytest.fixture
def tier(tmp_path: Path, runs: tuple[SpilledRun, SpilledRun]) -> Iterator[SsdTier]:
    """With both runs in files."""
    tier = SsdTier(SsdSettings(tmp_path, 1 << 30, 0), IDENTITY)
    for run in runs:
        assert tier.put(run)
    assert tier.flush(10)
    yield tier
    tier.close(10)


class Reads:
    """Which thread has read which file, and a lock that holds up those beside the main one."""

    def __init__(self) -> None:
        self.threads: list[tuple[str, threading.Thread]] = []
        self.may_go_on, self.has_read = threading.Event(), threading.Event()
        self.may_go_on.set()

    def __call__(self, path: Path, identity: CacheIdentity) -> StoredRun:
        self.threads.append((path.stem, threading.current_thread()))
        if threading.current_thread() is not threading.main_thread():
            assert self.may_go_on.wait(10)
        run = read_run(path, identity)
        self.has_read.set()
        return run


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    reads = Reads()
    monkeypatch.setattr(ssd_files, "read_run", reads)
    return reads


def test_what_is_expected_is_read_once_and_by_another_thread(
    tier: SsdTier, runs: tuple[SpilledRun, SpilledRun], reads: Reads
) -> None:
    first, second = runs
    assert_holds(tier.get(first.keys, first.tokens), first.keys)
    tier.expect([second.keys[0]])
    assert_holds(tier.get(second.keys, second.tokens), second.keys)
    tier.expect([b"?" * 16])  # nobody has it
    names, threads = zip(*reads.threads, strict=True)
    assert names == (first.keys[-1].hex(), second.keys[-1].hex())
    assert [thread is threading.main_thread() for thread in threads] == [True, False]


def test_another_page_than_expected_does_not_wait(
    tier: SsdTier, runs: tuple[SpilledRun, SpilledRun], reads: Reads
) -> None:
    first, second = runs
    reads.may_go_on.clear()
    tier.expect([second.keys[0]])
    assert_holds(tier.get(first.keys, first.tokens), first.keys)
    reads.may_go_on.set()
    assert_holds(tier.get(second.keys, second.tokens), second.keys)


@pytest.mark.parametrize("is_chat", [False, True])
def test_what_is_forgotten_or_wrong_is_not_served_though_it_was_read(
    is_chat: bool, tier: SsdTier, runs: tuple[SpilledRun, SpilledRun], reads: Reads
) -> None:
    _, second = runs
    tier.expect([second.keys[0]])
    assert reads.has_read.wait(10)
    if is_chat:
        tier.forget_chat("other")
    else:
        tier.quarantine(second.keys[:1])
    assert tier.get(second.keys, second.tokens) is None
    assert not tier.find(second.keys[0])


def test_damage_that_is_met_ahead_is_removed_and_counted(
    tier: SsdTier, runs: tuple[SpilledRun, SpilledRun], tmp_path: Path
) -> None:
    _, second = runs
    (path,) = tmp_path.glob(f"*/{second.keys[-1].hex()}.safetensors")
    damaged = bytearray(path.read_bytes())
    damaged[-1] ^= 1
    path.write_bytes(damaged)
    tier.expect([second.keys[0]])
    assert tier.get(second.keys, second.tokens) is None
    assert (tier.quarantined_files, path.exists()) == (1, False)


def test_what_breaks_ahead_is_raised_to_whoever_asks(
    tier: SsdTier, runs: tuple[SpilledRun, SpilledRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(path: Path, identity: CacheIdentity) -> StoredRun:
        raise MemoryError(f"no room for {path.name}")

    _, second = runs
    monkeypatch.setattr(ssd_files, "read_run", broken)
    tier.expect([second.keys[0]])
    with pytest.raises(MemoryError, match=second.keys[-1].hex()):
        tier.get(second.keys, second.tokens)
    monkeypatch.undo()
    assert_holds(tier.get(second.keys, second.tokens), second.keys)


def test_the_end_does_not_wait_for_a_read_that_hangs(
    tier: SsdTier, runs: tuple[SpilledRun, SpilledRun], reads: Reads
) -> None:
    _, second = runs
    reads.may_go_on.clear()
    tier.expect([second.keys[0]])
    tier.close(10)
    tier.expect([second.keys[0]])  # nothing is read ahead any more
    assert_holds(tier.get(second.keys, second.tokens), second.keys)
    reads.may_go_on.set()
