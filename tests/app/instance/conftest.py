"""A listener on a data folder, and what an engine would tell it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.instance.client import LiveLines, NotRunning
from app.instance.feed import LiveFeed
from app.instance.listener import Listener
from app.instance.protocol import Opening
from engine import CacheCounts, MemoryUse, Stats, TokenGaps

PATIENCE = 60.0


def nothing(opening: Opening) -> None:
    """Takes the place of what shows the window."""


def stats(model: str = "/models/tiny", tokens: int = 7, **changes: object) -> Stats:
    """A pulse of a busy model."""
    told: dict[str, object] = {
        "running": 1,
        "cached_pages": 40,
        "model": model,
        "cache": CacheCounts(computed_tokens=25, cached_tokens=70, restored_tokens=5, drafted_tokens=8),
        "gaps": TokenGaps(100, 3.25, 4.5, 6.75),
        "memory": MemoryUse(process_bytes=180_000_000),
    }
    return Stats("r", 2, tokens, 61.5, 2400.0, 120, 512, 10, 20, **{**told, **changes})  # type: ignore[arg-type]


@pytest.fixture
def feed() -> LiveFeed:
    return LiveFeed()


@pytest.fixture
def home(tmp_path: Path, feed: LiveFeed) -> Iterator[Path]:
    """A data folder that a listener serves."""
    listener = Listener(tmp_path / "h", feed, nothing)
    listener.start()
    yield tmp_path / "h"
    assert listener.close(PATIENCE)


def connected(home: Path) -> LiveLines:
    """Connect as soon as the listener listens."""
    pause = threading.Event()
    for _ in range(6000):
        try:
            return LiveLines(home)
        except NotRunning:
            pause.wait(0.01)
    raise AssertionError("nobody listens")
