"""The schema of the library's database as numbered migrations, and how the database is opened."""

from __future__ import annotations

import sqlite3

from app.store.database import Kind


def _tables(connection: sqlite3.Connection) -> None:
    # What a path's headers told, with what the files were like then: nothing is read twice.
    connection.execute(
        """CREATE TABLE facts (
            path TEXT PRIMARY KEY,
            stamp TEXT NOT NULL,
            read_by TEXT NOT NULL,
            whole INTEGER NOT NULL,
            problem TEXT NOT NULL,
            format TEXT NOT NULL,
            size INTEGER NOT NULL,
            family TEXT NOT NULL,
            parameters INTEGER NOT NULL,
            quantization TEXT,
            licence TEXT NOT NULL,
            weight_bytes INTEGER NOT NULL,
            context_length INTEGER NOT NULL,
            largest_window INTEGER,
            kv_bytes_per_token INTEGER NOT NULL,
            fingerprint TEXT NOT NULL
        )"""
    )
    # What a person calls and keeps; it stays while the files are away.
    connection.execute(
        """CREATE TABLE models (
            key TEXT PRIMARY KEY,
            name TEXT NOT NULL,
            folded TEXT NOT NULL UNIQUE,
            path TEXT NOT NULL,
            source TEXT NOT NULL,
            origin TEXT NOT NULL,
            revision TEXT NOT NULL,
            added REAL NOT NULL,
            gone REAL,
            forgotten INTEGER NOT NULL DEFAULT 0,
            favourite INTEGER NOT NULL DEFAULT 0,
            last_used REAL
        )"""
    )
    connection.execute("CREATE INDEX models_by_path ON models(path)")
    # Folders and files that the user named.
    connection.execute("CREATE TABLE places (path TEXT PRIMARY KEY, added REAL NOT NULL)")
    # When a path was opened that no scan has met yet.
    connection.execute("CREATE TABLE uses (path TEXT PRIMARY KEY, used REAL NOT NULL)")


def _settings(connection: sqlite3.Connection) -> None:
    # JSON: what one version sets, another may not know.
    connection.execute("ALTER TABLE models ADD COLUMN settings TEXT NOT NULL DEFAULT '{}'")


def _no_dates(connection: sqlite3.Connection) -> None:
    # Models stand in the order of their names; nobody asked when one was added.
    connection.execute("ALTER TABLE models DROP COLUMN added")


def _vocabularies(connection: sqlite3.Connection) -> None:
    # Which models have about as many tokens; it is read with the next look.
    connection.execute("ALTER TABLE facts ADD COLUMN vocab_size INTEGER NOT NULL DEFAULT 0")
    connection.execute("UPDATE facts SET read_by = ''")


LIBRARY = Kind(
    (_tables, _settings, _no_dates, _vocabularies),
    "names of models",
    "UPDATE places SET added = added WHERE path = ''",
)
