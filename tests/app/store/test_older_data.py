"""Data folders of older versions: every database is brought up to date, with what was in it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from app.downloads.journal import DOWNLOADS, Journal
from app.history.schema import HISTORY
from app.library.registry import Registry
from app.library.schema import LIBRARY
from app.store.database import CHATS, Kind, open_database
from app.store.version_on_disk import version_on_disk

KINDS = {"chats": CHATS, "downloads": DOWNLOADS, "history": HISTORY, "library": LIBRARY}
VERSIONS = [(name, version) for name, kind in KINDS.items() for version in range(len(kind.migrations))]


def older(path: Path, kind: Kind, version: int) -> sqlite3.Connection:
    """A database as the MLXR of that version left it."""
    connection = sqlite3.connect(path, isolation_level=None)
    for step in kind.migrations[:version]:
        step(connection)
    connection.execute(f"PRAGMA user_version = {version}")
    return connection


@pytest.mark.parametrize(("name", "version"), VERSIONS)
def test_every_older_database_becomes_one_of_now(tmp_path: Path, name: str, version: int) -> None:
    path, kind = tmp_path / "a.sqlite3", KINDS[name]
    older(path, kind, version).close()
    opened = open_database(path, kind)
    with closing(opened.connection) as connection:
        now = connection.execute("SELECT name, sql FROM sqlite_master ORDER BY name").fetchall()
        with closing(open_database(tmp_path / "new.sqlite3", kind).connection) as blank:
            assert now == blank.execute("SELECT name, sql FROM sqlite_master ORDER BY name").fetchall()
    assert (opened.problem, opened.saved) == ("", True)
    assert version_on_disk(path) == len(kind.migrations)


def test_names_and_favourites_of_the_first_library_stay(tmp_path: Path) -> None:
    path = tmp_path / "library.sqlite3"
    with closing(older(path, LIBRARY, 1)) as db:
        db.execute(
            "INSERT INTO facts VALUES ('/m/a', 's', 'r', 1, '', 'mlx', 10, 'llama', 5, NULL, 'mit', 9, 4, "
            "NULL, 2, 'f')"
        )
        db.execute(
            "INSERT INTO models(key, name, folded, path, source, origin, revision, added, favourite, "
            "last_used) VALUES ('k', 'My own', 'my own', '/m/a', 'folder', '', '', 1.0, 1, 7.0)"
        )
        db.execute("INSERT INTO places VALUES ('/m', 2.0)")
    with closing(open_database(path, LIBRARY).connection) as db:
        registry = Registry(db)
        (model,) = registry.models()
        assert (model.name, model.path, model.favourite, model.last_used) == (
            "My own",
            Path("/m/a"),
            True,
            7.0,
        )
        assert registry.places() == [Path("/m")]


def test_downloads_of_the_first_version_go_on(tmp_path: Path) -> None:
    path = tmp_path / "downloads.sqlite3"
    with closing(older(path, DOWNLOADS, 1)) as db:
        db.execute(
            "INSERT INTO downloads(repo, quant, file, revision, plan, state, words, added) "
            "VALUES ('lab/tiny', '', '', 'main', '', 'paused', '', 1.0)"
        )
    with closing(Journal(path)) as journal:
        (entry,) = journal.pending()
    assert (journal.problem, entry.wanted.repo, entry.state) == ("", "lab/tiny", "paused")
