"""What is asked of the library's database, in SQL: one method per question or change."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager
from dataclasses import astuple, fields
from pathlib import Path
from typing import Any

from app.library.model_settings import from_json, to_json
from app.library.names import folded, unique_name
from app.library.records import Candidate, Facts, LeftOut, Model, ModelSettings

_FACTS = tuple(f.name for f in fields(Facts))
_MODEL = ("key", "name", "path", "source", "origin", "revision", "gone", "favourite", "last_used", "settings")
_Row = tuple[Any, ...]


class Registry:
    """Reads and writes the registry. Used by one thread, on a connection in autocommit mode.

    Every method may raise sqlite3.Error.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection

    def models(self) -> list[Model]:
        """All models that were not forgotten, favourites first, then by name."""
        columns = [*(f"models.{name}" for name in _MODEL), *(f"facts.{name}" for name in _FACTS)]
        rows = self._db.execute(
            f"SELECT {', '.join(columns)} FROM models JOIN facts ON facts.path = models.path "
            "WHERE NOT forgotten ORDER BY favourite DESC, folded"
        )
        return [_model(row) for row in rows]

    def left_out(self) -> list[LeftOut]:
        """What looks like a model, is not whole and never was, by its path."""
        rows = self._db.execute(
            "SELECT path, problem, size FROM facts WHERE NOT whole "
            "AND path NOT IN (SELECT path FROM models) ORDER BY path"
        )
        return [LeftOut(Path(path), problem, size) for path, problem, size in rows]

    def facts_of(self, path: Path, stamp: str, reader: str) -> Facts | None:
        """What `reader` read of `path` when its stamp was this one; None when it did not."""
        row = self._db.execute(
            f"SELECT {', '.join(_FACTS)} FROM facts WHERE path = ? AND stamp = ? AND read_by = ?",
            (str(path), stamp, reader),
        ).fetchone()
        return _facts(row) if row else None

    def save_facts(self, path: Path, stamp: str, reader: str, facts: Facts) -> None:
        """Keep what was read."""
        values = (str(path), stamp, reader, *astuple(facts))
        self._db.execute(
            f"INSERT OR REPLACE INTO facts(path, stamp, read_by, {', '.join(_FACTS)}) "
            f"VALUES ({', '.join('?' * len(values))})",
            values,
        )

    def take_in(
        self, found: Mapping[str, Candidate], unread: Collection[Path], seen: Collection[Path]
    ) -> None:
        """Make the registry say what a scan found: new models get names, and what is not there is gone.

        Args:
            found: whole models by the keys they have now.
            unread: places that could not be looked into; what is known there stays as it is.
            seen: paths of everything that was found, whole or not.
        """

        def is_known(path: str) -> bool:
            return not any(Path(path).is_relative_to(place) for place in unread)

        here = {str(candidate.path) for candidate in found.values()}
        with transaction(self._db):
            for key, candidate in found.items():
                self._put(key, candidate)
            for key, path in self._db.execute("SELECT key, path FROM models WHERE gone IS NULL").fetchall():
                if key in found or not is_known(path):
                    continue
                if path in here:  # it has another key now, and the name that goes with it
                    self._db.execute("DELETE FROM models WHERE key = ?", (key,))
                else:
                    self._db.execute("UPDATE models SET gone = ? WHERE key = ?", (time.time(), key))
            kept = {path for (path,) in self._db.execute("SELECT path FROM models")} | set(map(str, seen))
            for (path,) in self._db.execute("SELECT path FROM facts").fetchall():
                if path not in kept and is_known(path):
                    self._db.execute("DELETE FROM facts WHERE path = ?", (path,))

    def _put(self, key: str, candidate: Candidate) -> None:
        place = (str(candidate.path), candidate.source, candidate.origin, candidate.revision)
        changed = self._db.execute(
            "UPDATE models SET path = ?, source = ?, origin = ?, revision = ?, gone = NULL WHERE key = ?",
            (*place, key),
        )
        if changed.rowcount:
            return
        revision = "" if key == candidate.key else candidate.revision
        name = unique_name(candidate.title, candidate.publisher, revision, self._is_taken)
        used = self._db.execute("SELECT used FROM uses WHERE path = ?", (str(candidate.path),)).fetchone()
        self._db.execute(
            "INSERT INTO models(path, source, origin, revision, key, name, folded, last_used) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (*place, key, name, folded(name), used[0] if used else None),
        )

    def _is_taken(self, folded_name: str) -> bool:
        return bool(self._db.execute("SELECT 1 FROM models WHERE folded = ?", (folded_name,)).fetchone())

    def rename(self, key: str, name: str) -> bool:
        """Give a model another name. False when another model has it."""
        try:
            self._db.execute(
                "UPDATE models SET name = ?, folded = ? WHERE key = ?", (name, folded(name), key)
            )
        except sqlite3.IntegrityError:
            return False
        return True

    def set_favourite(self, key: str, favourite: bool) -> None:
        """Note whether it stands in front."""
        self._db.execute("UPDATE models SET favourite = ? WHERE key = ?", (favourite, key))

    def save_settings(self, key: str, settings: ModelSettings) -> None:
        """Keep what a person set for a model."""
        self._db.execute("UPDATE models SET settings = ? WHERE key = ?", (to_json(settings), key))

    def forget(self, key: str) -> None:
        """Do not list it any more, however often it is found."""
        self._db.execute("UPDATE models SET forgotten = 1 WHERE key = ?", (key,))

    def recall(self, paths: Collection[Path]) -> None:
        """List again what lies at `paths`."""
        for path in paths:
            self._db.execute("UPDATE models SET forgotten = 0 WHERE path = ?", (str(path),))

    def delete(self, key: str) -> None:
        """Drop it with its name and all that was kept of it: its files are gone for good."""
        self._db.execute("DELETE FROM models WHERE key = ?", (key,))

    def drop_facts(self, place: Path) -> None:
        """Nothing lies at or below `place` any more."""
        for (path,) in self._db.execute("SELECT path FROM facts").fetchall():
            if Path(path).is_relative_to(place):
                self._db.execute("DELETE FROM facts WHERE path = ?", (path,))

    def key_at(self, path: Path) -> str | None:
        """The key of the model at `path`, or of the only one in the folder `path`."""
        rows = self._db.execute("SELECT key, path FROM models").fetchall()
        keys = [key for key, one in rows if one == str(path)]
        keys = keys or [key for key, one in rows if Path(one).parent == path]
        return keys[0] if len(keys) == 1 else None

    def note_use(self, path: Path) -> None:
        """Note that the model at `path` was opened now."""
        key, now = self.key_at(path), time.time()
        if key is not None:
            self._db.execute("UPDATE models SET last_used = ? WHERE key = ?", (now, key))
        else:
            self._db.execute("INSERT OR REPLACE INTO uses VALUES (?, ?)", (str(path), now))

    def places(self) -> list[Path]:
        """Folders and files that the user named, in that order."""
        return [Path(path) for (path,) in self._db.execute("SELECT path FROM places ORDER BY added, path")]

    def add_place(self, path: Path) -> None:
        """Look there from now on."""
        self._db.execute("INSERT OR IGNORE INTO places VALUES (?, ?)", (str(path), time.time()))

    def drop_place(self, path: Path) -> None:
        """Look there no more."""
        self._db.execute("DELETE FROM places WHERE path = ?", (str(path),))


@contextmanager
def transaction(connection: sqlite3.Connection) -> Generator[None]:
    """All that is done within, or nothing of it."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _facts(row: _Row) -> Facts:
    whole, *others = row
    return Facts(bool(whole), *others)


def _model(row: _Row) -> Model:
    key, name, path, source, origin, revision, gone, favourite, last_used, settings = row[: len(_MODEL)]
    facts = _facts(row[len(_MODEL) :])
    state = "damaged" if not facts.whole else "here" if gone is None else "gone"
    return Model(
        key,
        name,
        Path(path),
        source,
        origin,
        revision,
        state,
        bool(favourite),
        last_used,
        from_json(settings),
        facts,
    )
