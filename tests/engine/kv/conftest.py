"""Tests of KV memory leave no thread behind."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from engine.kv.ssd.writer import SsdWriter


@pytest.fixture(autouse=True)
def _writers_end(monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """The thread of an SSD tier that a test has not closed ends with the test."""
    writers, begin = list[SsdWriter](), SsdWriter.__init__

    def note(self: SsdWriter, *args: Any, **options: Any) -> None:
        writers.append(self)
        begin(self, *args, **options)

    monkeypatch.setattr(SsdWriter, "__init__", note)
    yield
    for writer in writers:
        writer.close(1.0)
