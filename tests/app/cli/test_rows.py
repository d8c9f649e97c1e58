"""Measurements with their targets, as values and as a table."""

from __future__ import annotations

import json

import pytest

from app.cli.rows import Row, Target, ratios, table


@pytest.mark.parametrize(
    ("target", "verdict"),
    [
        (None, ""),
        (Target("at least", 2.0), "pass"),
        (Target("at least", 2.1), "short"),
        (Target("at most", 2.0), "pass"),
        (Target("at most", 1.9), "short"),
    ],
)
def test_the_median_decides(target: Target | None, verdict: str) -> None:
    assert Row("x", "s", (9.0, 2.0, 1.0), target).verdict == verdict


def test_ratios_are_taken_pair_by_pair() -> None:
    assert ratios([2.0, 9.0], [1.0, 3.0]) == (2.0, 3.0)
    with pytest.raises(ValueError, match="shorter"):
        ratios([1.0, 2.0], [1.0])


def test_json_has_the_spread_and_the_target() -> None:
    row = json.loads(json.dumps(Row("x", "s", (3.0, 1.0, 2.0), Target("at most", 5.0)).as_json()))
    assert (row["median"], row["low"], row["high"]) == (2.0, 1.0, 3.0)
    assert row["target"] == {"sense": "at most", "value": 5.0}
    assert row["verdict"] == "pass"


def test_the_table_shows_value_spread_and_verdict() -> None:
    rows = [
        Row("decode", "tok/s", (1500.0, 160.0, 140.0), Target("at least", 150.0)),
        Row("first", "s", (0.0312,)),
    ]
    first, second = table(rows)
    assert first.split() == ["decode", "160", "tok/s", "(140–1,500)", "target", "≥", "150", "pass"]
    assert second.split() == ["first", "0.031", "s", "(0.031–0.031)"]
