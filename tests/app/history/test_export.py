"""The CSV file: what a spreadsheet reads back is what was recorded, and a failure leaves nothing behind."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.errors import AppError
from app.history.export import write_csv
from app.history.requests import COLUMNS, RequestStore
from tests.app.history.conftest import record


def test_it_reads_back_as_it_was_recorded(store: RequestStore, tmp_path: Path) -> None:
    odd = 'a "quoted", long\nname; π'
    told = [record(1.5, model=odd, ttft_ms=None, kv_bits=8), record(2.0)]
    for one in told:
        store.add(one)
    path = tmp_path / "history.csv"
    path.write_text("of yesterday")
    assert write_csv(store.rows(), path) == 2
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [list(row) for row in rows] == [list(COLUMNS)] * 2
    expected = [[getattr(one, name) for name in COLUMNS] for one in told]
    assert [list(row.values()) for row in rows] == [
        ["" if value is None else str(value) for value in values] for values in expected
    ]
    assert [file.name for file in tmp_path.iterdir()] == ["history.csv"]


def test_a_failure_in_the_middle_leaves_the_old_file(tmp_path: Path) -> None:
    def broken() -> Iterator[tuple[object, ...]]:
        yield (1,)
        raise OSError(28, os.strerror(28))

    path = tmp_path / "history.csv"
    path.write_text("of yesterday")
    with pytest.raises(AppError, match="No space left"):
        write_csv(broken(), path)
    assert [file.name for file in tmp_path.iterdir()] == ["history.csv"]
    assert path.read_text() == "of yesterday"


def test_a_folder_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(AppError, match="choose another folder"):
        write_csv([], tmp_path / "gone" / "history.csv")
