"""SSD tiers in a folder, runs to store in them, a clock that a test sets, and what a disk may refuse."""

from __future__ import annotations

import errno
import os
import threading
from collections import namedtuple
from pathlib import Path

import pytest

from engine.kv.page_data import ROOT_KEY, SpilledRun
from engine.kv.page_file import encode
from engine.kv.page_header import CacheIdentity
from engine.kv.ssd.settings import SsdSettings
from engine.kv.ssd.tier import SsdTier
from tests.engine.kv.spilled import IDENTITY, pages, spilled

DAY = 86_400
PLENTY = 1 << 30
Usage = namedtuple("Usage", "total used free")


class Clock:
    """Seconds since 1970, as the test says."""

    def __init__(self) -> None:
        self.now = 20_000.5 * DAY

    def __call__(self) -> float:
        return self.now


def opened(
    folder: Path,
    identity: CacheIdentity = IDENTITY,
    cap: int = PLENTY,
    floor: int = 0,
    clock: Clock | None = None,
    queue_bytes: int = PLENTY,
) -> SsdTier:
    return SsdTier(SsdSettings(folder, cap, floor), identity, clock=clock or Clock(), queue_bytes=queue_bytes)


def page_files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*/*.safetensors"))


def chain(runs: int, first: int = 0, length: int = 4) -> list[SpilledRun]:
    """Runs of one sequence, one behind the other."""
    made: list[SpilledRun] = []
    parent = ROOT_KEY
    for number in range(runs):
        made.append(spilled(parent, pages(first + 100 * number, length)))
        parent = made[-1].keys[-1]
    return made


def stored(tier: SsdTier, *runs: SpilledRun) -> None:
    for run in runs:
        assert tier.put(run)
    assert tier.flush(60)


def file_size(run: SpilledRun) -> int:
    return encode(run, IDENTITY, 0).header.size


def found(tier: SsdTier, runs: list[SpilledRun]) -> list[bool]:
    return [all(tier.find(key) for key in run.keys) for run in runs]


def held_up(monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
    """Writing a file ends only when it may: the events that it has begun, and that it may end."""
    sync, has_begun, may_end = os.fsync, threading.Event(), threading.Event()

    def slow(descriptor: int) -> None:
        has_begun.set()
        assert may_end.wait(60)
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", slow)
    return has_begun, may_end


def full(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def refused(*args: object, **kwargs: object) -> None:
    raise PermissionError(errno.EACCES, "Permission denied", "disk")
