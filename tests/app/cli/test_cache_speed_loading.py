"""What `mlxr bench --cache` measures of a load beside an answer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from app.cli import cache_speed_loading
from app.cli.rows import Row
from app.errors import AppError
from tests.fakes.random_model import write_random_model


@pytest.fixture(autouse=True)
def _little_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_speed_loading, "LOADED", "tiny")


def test_the_load_and_the_answer_beside_it_have_rows(rows_of: Callable[..., dict[str, Row]]) -> None:
    rows = rows_of("loading", pairs=2)
    pieces = rows.pop("pieces of the answer meanwhile")
    assert min(pieces.samples) >= 0
    assert all(min(row.samples) > 0 for row in rows.values())
    assert not any(row.target for row in rows.values())
    alone, beside = (row for what, row in rows.items() if what.startswith("loading tiny, "))
    ratios = tuple(one / other for one, other in zip(beside.samples, alone.samples, strict=True))
    assert rows["loading, beside to alone"].samples == ratios


def test_an_answer_that_is_too_short_is_one_line(
    rows_of: Callable[..., dict[str, Row]], tmp_path: Path
) -> None:
    model = write_random_model(tmp_path / "short", max_position_embeddings=200)
    with pytest.raises(AppError, match="the answer ended before the load did; give "):
        rows_of("loading", model)
