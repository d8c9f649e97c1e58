"""Measurements with their targets, as values and as a table."""

from __future__ import annotations

import json

import pytest

from app.cli.rows import Row, Target, ratio_row, table


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


def test_ratios_are_taken_pair_by_pair_and_of_medians() -> None:
    row = ratio_row("x", [2.0, 9.0, 4.0], [1.0, 3.0, 4.0], Target("at least", 2.0), "decode")
    assert row.samples == (2.0, 3.0, 1.0)
    assert row.middle == 2.0
    assert row.of_medians == 4.0 / 3.0
    assert (row.verdict, row.unit, row.group) == ("pass", "x", "decode")
    with pytest.raises(ValueError, match="shorter"):
        ratio_row("x", [1.0, 2.0], [1.0], None, "")


def test_json_has_the_spread_and_the_target() -> None:
    row = json.loads(json.dumps(Row("x", "s", (3.0, 1.0, 2.0), Target("at most", 5.0), "g").as_json()))
    assert row == {
        "group": "g",
        "what": "x",
        "unit": "s",
        "median": 2.0,
        "low": 1.0,
        "high": 3.0,
        "of_medians": None,
        "samples": [3.0, 1.0, 2.0],
        "target": {"sense": "at most", "value": 5.0},
        "verdict": "pass",
    }


def test_the_table_shows_value_spread_and_verdict() -> None:
    rows = [
        Row("decode", "tok/s", (1500.0, 160.0, 140.0), Target("at least", 150.0)),
        Row("first", "s", (0.03124,)),
    ]
    first, second = table(rows)
    assert first.split() == ["decode", "160", "tok/s", "(140–1,500)", "target", "≥", "150", "pass"]
    assert second.split() == ["first", "0.0312", "s", "(0.0312–0.0312)"]


def test_groups_have_headings_and_their_numbers_stand_in_one_column() -> None:
    rows = [
        Row("a", "tok/s", (5.25,), group="one"),
        ratio_row("longer", [3.0], [2.0], Target("at least", 2.0), "one"),
        Row("b", "", (136.0,), Target("at most", 136), "two"),
    ]
    lines = list(table(rows))
    assert [lines[0], lines[3]] == ["one:", "two:"]
    assert "of medians 1.50" in lines[2]
    assert lines[2].endswith("target ≥ 2.00   short")
    assert lines[1].index("5.25") + 4 == lines[2].index("1.50") + 4 == lines[4].index("136") + 3


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "0"),
        (0.00214, "0.00214"),
        (0.4111, "0.411"),
        (1.0, "1.00"),
        (12.34, "12.3"),
        (17400.4, "17,400"),
    ],
)
def test_three_digits_count(value: float, shown: str) -> None:
    (line,) = table([Row("x", "s", (value,))])
    assert line.split()[1] == shown
