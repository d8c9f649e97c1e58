"""The history's thread: what was recorded is there after a restart; a newer file is left as it is."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue

from app.errors import AppError
from app.history.requests import RequestStore
from app.history.schema import HISTORY
from app.history.spans import Span
from app.history.worker import HistoryWorker
from app.store.database import open_database
from tests.app.history.conftest import record

PATIENCE = 60.0
ALL = Span((-1e12, 1e12))


def opened(path: Path) -> tuple[HistoryWorker, SimpleQueue[Callable[[], None]], list[str]]:
    calls: SimpleQueue[Callable[[], None]] = SimpleQueue()
    problems: list[str] = []
    worker = HistoryWorker(path, calls.put, problems.append)
    worker.start()
    return worker, calls, problems


def test_what_was_recorded_is_there_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "home" / "history.sqlite3"
    told = [record(float(at)) for at in range(50)]
    worker, calls, problems = opened(path)
    for one in told:
        worker.save(one)
    assert worker.close(PATIENCE)
    again, calls, problems = opened(path)
    answers: list[object] = []
    again.ask(lambda store: store.latest(ALL), answers.append)
    calls.get(timeout=PATIENCE)()
    assert answers == [told[::-1]]
    assert problems == []
    assert again.close(PATIENCE)
    assert path.stat().st_mode & 0o077 == 0


def test_an_export_that_fails_is_told_and_ends_nothing(tmp_path: Path) -> None:
    worker, calls, problems = opened(tmp_path / "history.sqlite3")
    for at in (1.0, 2.0, 3.0):
        worker.save(record(at))
    told: list[int | AppError] = []
    worker.export(tmp_path / "gone" / "all.csv", told.append)
    worker.export(tmp_path / "some.csv", told.append, Span((0.0, 2.5)), {"model": "/m/tiny"})
    calls.get(timeout=PATIENCE)()
    calls.get(timeout=PATIENCE)()
    failed, written = told
    assert isinstance(failed, AppError)
    assert "choose another folder" in str(failed)
    assert written == 2
    assert len((tmp_path / "some.csv").read_text().splitlines()) == 3
    assert problems == []
    assert worker.close(PATIENCE)


def test_two_programs_record_into_one_file(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite3"
    workers = [opened(path)[0] for _ in range(2)]
    told = [record(float(at)) for at in range(200)]
    for place, one in enumerate(told):
        workers[place % 2].save(one)
    assert all(worker.close(PATIENCE) for worker in workers)
    connection = open_database(path, HISTORY).connection
    ids = {one.id for one in RequestStore(connection).latest(ALL)}
    connection.close()
    assert ids == {one.id for one in told}


def test_a_newer_history_is_said_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite3"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE from_the_future (x)")
    connection.execute(f"PRAGMA user_version = {len(HISTORY.migrations) + 1}")
    connection.close()
    before = path.read_bytes()
    worker, calls, problems = opened(path)
    worker.save(record())
    calls.get(timeout=PATIENCE)()
    assert len(problems) == 1
    assert problems[0].endswith(
        "is left as it is; this session's recorded requests are kept in memory only. "
        "Update MLXR to see your recorded requests."
    )
    assert worker.close(PATIENCE)
    assert path.read_bytes() == before
