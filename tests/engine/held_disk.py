"""A disk that writes nothing until a test lets it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from threading import Event

import pytest

from engine.kv.ssd.folder import SsdFolder


def held_writes(monkeypatch: pytest.MonkeyPatch) -> Event:
    """Files are written once it is set."""
    write, may_write = SsdFolder.write, Event()

    def held(folder: SsdFolder, path: Path, buffers: Sequence[memoryview]) -> None:
        assert may_write.wait(60)
        write(folder, path, buffers)

    monkeypatch.setattr(SsdFolder, "write", held)
    return may_write
