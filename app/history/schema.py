"""The schema of the history of requests, as numbered migrations."""

from __future__ import annotations

import sqlite3

from app.store.database import Kind


def _tables(connection: sqlite3.Connection) -> None:
    connection.execute(
        """CREATE TABLE requests (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            id TEXT NOT NULL UNIQUE,
            at REAL NOT NULL,
            session TEXT NOT NULL,
            since REAL NOT NULL,
            client TEXT NOT NULL,
            chat TEXT NOT NULL,
            model TEXT NOT NULL,
            version TEXT NOT NULL,
            executor TEXT NOT NULL,
            device TEXT NOT NULL,
            kv_bits INTEGER,
            temperature REAL NOT NULL,
            top_k INTEGER NOT NULL,
            top_p REAL NOT NULL,
            min_p REAL NOT NULL,
            answers INTEGER NOT NULL,
            prompt_tokens INTEGER NOT NULL,
            cached_tokens INTEGER NOT NULL,
            restored_tokens INTEGER NOT NULL,
            answer_tokens INTEGER NOT NULL,
            drafted_tokens INTEGER NOT NULL,
            accepted_tokens INTEGER NOT NULL,
            queued_ms REAL,
            ttft_ms REAL,
            total_ms REAL NOT NULL,
            prefill_tps REAL,
            decode_tps REAL,
            outcome TEXT NOT NULL,
            reason TEXT NOT NULL,
            error TEXT NOT NULL
        )"""
    )
    connection.execute("CREATE INDEX requests_by_time ON requests(at)")
    connection.execute("CREATE INDEX requests_by_session ON requests(session, since)")


HISTORY = Kind((_tables,), "recorded requests", "UPDATE requests SET error = error WHERE number = 0")
