"""A history in memory, and records with everything a test does not care about filled in."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from app.history.records import RequestRecord
from app.history.requests import RequestStore
from app.history.schema import HISTORY
from app.store.schema import migrate

MakeRecord = Callable[..., RequestRecord]


def record(at: float = 0.0, **values: Any) -> RequestRecord:
    """A finished request of the window, with `values` in place of what is usual."""
    usual: dict[str, Any] = {
        "session": "now",
        "since": at,
        "client": "window",
        "chat": "c",
        "model": "/m/tiny",
        "version": "1",
        "executor": "reference",
        "device": "CPU",
        "kv_bits": None,
        "temperature": 0.7,
        "top_k": 0,
        "top_p": 0.9,
        "min_p": 0.0,
        "answers": 1,
        "prompt_tokens": 100,
        "cached_tokens": 60,
        "restored_tokens": 10,
        "answer_tokens": 20,
        "drafted_tokens": 8,
        "accepted_tokens": 6,
        "queued_ms": 1.0,
        "ttft_ms": 50.0,
        "total_ms": 400.0,
        "prefill_tps": 900.0,
        "decode_tps": 60.0,
        "outcome": "finished",
        "reason": "stop",
    }
    return RequestRecord(at=at, **{**usual, **values})


@contextmanager
def open_store(kept: int = 1000) -> Iterator[RequestStore]:
    """A store in memory that keeps so many requests."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        migrate(connection, HISTORY.migrations)
        yield RequestStore(connection, kept)


@pytest.fixture
def store() -> Iterator[RequestStore]:
    with open_store() as store:
        yield store
