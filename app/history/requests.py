"""What is asked of the history of requests, in SQL: one method per question or change."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, get_args

from app.history.records import Field, Figures, Group, RequestRecord, Where
from app.history.spans import Span

KEPT = 100_000
"""Requests that are kept: the newest, in the order in which they were recorded, whatever the clock said."""
COLUMNS = tuple(f.name for f in fields(RequestRecord))
FIELDS: tuple[Field, ...] = get_args(Field)
_BATCH = 500

_SUMS = """count(*), sum(outcome = 'stopped'), sum(outcome = 'failed'), sum(prompt_tokens),
    sum(cached_tokens + restored_tokens), sum(answer_tokens), sum(drafted_tokens), sum(accepted_tokens)"""
_PERCENTILES = (("ttft_ms", 50), ("ttft_ms", 95), ("prefill_tps", 50), ("decode_tps", 50))

_Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class _Chosen:
    """Rows to look at, each with a key: a common table expression named `chosen`, and its parameters."""

    sql: str
    parameters: tuple[object, ...]


class RequestStore:
    """Reads and writes the history. Used by one thread, on a connection in autocommit mode.

    Every method may raise sqlite3.Error.
    """

    def __init__(self, connection: sqlite3.Connection, kept: int = KEPT) -> None:
        self._db = connection
        self._kept = kept

    def add(self, record: RequestRecord) -> None:
        """Keep the request; the oldest ones beyond what is kept go."""
        values = ", ".join(f":{name}" for name in COLUMNS)
        self._db.execute(
            f"INSERT INTO requests({', '.join(COLUMNS)}) VALUES ({values}) ON CONFLICT(id) DO NOTHING",
            {name: getattr(record, name) for name in COLUMNS},
        )
        self.trim()

    def trim(self) -> None:
        """Let go of requests beyond those that are kept."""
        self._db.execute(
            "DELETE FROM requests WHERE number <= (SELECT max(number) FROM requests) - ?", (self._kept,)
        )

    def clear(self) -> None:
        """Delete every request, and give the disk its room back."""
        self._db.execute("DELETE FROM requests")
        self._db.execute("PRAGMA incremental_vacuum").fetchall()

    def latest(self, span: Span, where: Where | None = None, limit: int = 1000) -> list[RequestRecord]:
        """Requests of the span, last recorded first, at most `limit`."""
        condition, parameters = _condition(span, where)
        rows = self._db.execute(
            f"SELECT {', '.join(COLUMNS)} FROM requests WHERE {condition} ORDER BY number DESC LIMIT ?",
            (*parameters, limit),
        )
        return [RequestRecord(*row) for row in rows]

    def figures(self, span: Span, where: Where | None = None) -> Figures:
        """What the span's requests come to."""
        condition, parameters = _condition(span, where)
        chosen = _Chosen(f"chosen AS (SELECT 0 AS k0, * FROM requests WHERE {condition})", parameters)
        return self._figures(chosen, 1).get((0,), Figures())

    def buckets(self, span: Span, where: Where | None = None) -> list[Figures]:
        """What the requests of each of the span's buckets come to, also of those without one."""
        condition, parameters = _condition(span, where)
        bounds = ", ".join(["(?, ?, ?)"] * len(span.buckets))
        edges = [value for place, (low, high) in enumerate(span.buckets) for value in (place, low, high)]
        chosen = _Chosen(
            f"spans(k0, low, high) AS (VALUES {bounds}), chosen AS (SELECT spans.k0, requests.* FROM spans "
            f"JOIN requests ON {_clock(span)} >= low AND {_clock(span)} < high WHERE {condition})",
            (*edges, *parameters),
        )
        found = self._figures(chosen, 1)
        return [found.get((place,), Figures()) for place in range(len(span.buckets))]

    def groups(self, span: Span, by: Sequence[Field], where: Where | None = None) -> list[Group]:
        """The span's requests by what they have in common, those with most requests first."""
        condition, parameters = _condition(span, where)
        keys = ", ".join(f"{_column(name)} AS k{place}" for place, name in enumerate(by))
        chosen = _Chosen(f"chosen AS (SELECT {keys}, * FROM requests WHERE {condition})", parameters)
        groups = [Group(key, figures) for key, figures in self._figures(chosen, len(by)).items()]
        return sorted(groups, key=lambda group: -group.figures.requests)

    def rows(self, span: Span | None = None, where: Where | None = None) -> Iterator[tuple[Any, ...]]:
        """Every request, or those of the span, in the order of recording, in the order of COLUMNS."""
        condition, parameters = _condition(span, where)
        cursor = self._db.execute(
            f"SELECT {', '.join(COLUMNS)} FROM requests WHERE {condition} ORDER BY number", parameters
        )
        while batch := cursor.fetchmany(_BATCH):
            yield from batch

    def _figures(self, chosen: _Chosen, keys: int) -> dict[_Key, Figures]:
        """The figures of what is chosen, for each key of so many columns k0, k1, …"""
        names = ", ".join(f"k{place}" for place in range(keys))
        sums = self._db.execute(
            f"WITH {chosen.sql} SELECT {names}, {_SUMS} FROM chosen GROUP BY {names}", chosen.parameters
        ).fetchall()
        found = [self._percentile(chosen, keys, column, percent) for column, percent in _PERCENTILES]
        return {
            row[:keys]: Figures(*row[keys:], *(percentile.get(row[:keys]) for percentile in found))
            for row in sums
        }

    def _percentile(self, chosen: _Chosen, keys: int, column: str, percent: int) -> dict[_Key, float]:
        """The nearest-rank percentile of a column, for each key that has a value."""
        names = ", ".join(f"k{place}" for place in range(keys))
        rows = self._db.execute(
            f"WITH {chosen.sql}, ranked AS (SELECT {names}, {column} AS value, "
            f"row_number() OVER (PARTITION BY {names} ORDER BY {column}) AS place, "
            f"count(*) OVER (PARTITION BY {names}) AS total FROM chosen WHERE {column} IS NOT NULL) "
            f"SELECT {names}, value FROM ranked WHERE place = (total * {percent} + 99) / 100",
            chosen.parameters,
        )
        return {row[:keys]: row[keys] for row in rows}


def _condition(span: Span | None, where: Where | None) -> tuple[str, tuple[object, ...]]:
    """A condition on requests, and its parameters."""
    terms, parameters = ["1"], list[object]()
    if span is not None:
        terms.append(f"{_clock(span)} >= ? AND {_clock(span)} < ?")
        parameters += (span.edges[0], span.edges[-1])
        if span.session:
            terms.append("session = ?")
            parameters.append(span.session)
    for name, value in (where or {}).items():
        terms.append(f"{_column(name)} IS ?")  # IS: None equals None
        parameters.append(value)
    return " AND ".join(terms), tuple(parameters)


def _clock(span: Span) -> str:
    return "since" if span.session else "at"


def _column(name: Field) -> str:
    """The column of a field. Raises ValueError for another name: it goes into SQL as it is."""
    if name not in FIELDS:
        raise ValueError(f"requests cannot be told apart by {name!r}")
    return name
