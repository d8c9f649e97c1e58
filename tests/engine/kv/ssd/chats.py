"""Runs that are of chats, chats that are forgotten, and a folder that somebody else is writing to."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from engine.kv.page_data import ROOT_KEY, SpilledRun
from engine.kv.page_file import read_header
from engine.kv.page_header import Chats
from engine.kv.ssd.folder import SsdFolder
from engine.kv.ssd.tier import SsdTier
from tests.engine.kv.spilled import pages, spilled


def run_of(*chats: str, first: int = 0) -> SpilledRun:
    return spilled(ROOT_KEY, pages(first, 4), chats)


def names(count: int, kind: str = "") -> list[str]:
    """As long as those of chats are."""
    return [f"{kind}{number:036d}" for number in range(count)]


def chats_of(path: Path) -> Chats:
    return read_header(path, None).chats


def forgotten(tier: SsdTier, chat: str) -> None:
    """At once, and then in the files too, which a thread of its own does for the engine."""
    tier.forget_chat(chat)
    tier.remove_forgotten()


def busy(folder: Path, monkeypatch: pytest.MonkeyPatch) -> SsdFolder:
    """The folder, whose lock nobody waits for."""
    monkeypatch.setattr("engine.kv.ssd.folder._LOCK_S", 0.0)
    return SsdFolder(folder, "", shutil.disk_usage)
