"""What benchmarks measured: kept, read again whatever lies there, and compared without false news."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from app.dashboard.bench_plans import SIZES, BenchPlan
from app.dashboard.bench_results import BenchResult, Measured, delete, keep, read_kept
from app.dashboard.bench_words import difference, earlier, markdown, notes, rows
from app.errors import AppError


def row(what: str, unit: str, *samples: float, sense: str = "") -> dict[str, Any]:
    return {
        "group": "decode",
        "what": what,
        "unit": unit,
        "median": median(samples),
        "low": min(samples),
        "high": max(samples),
        "samples": list(samples),
        "target": {"sense": sense, "value": 1.0} if sense else None,
    }


def report(date: str, *measured: dict[str, Any], chip: str = "Apple M4") -> dict[str, Any]:
    return {
        "machine": {"device_name": chip, "memory_bytes": 17_179_869_184, "architecture": "arm64"},
        "versions": {"mlxr": "0.1.0", "mlx": "0.32.4", "mlx-lm": None, "python": "3.11.7"},
        "executor": "metal",
        "date": date,
        "rows": list(measured) or [row("decode at 200 tokens", "tok/s", 99.0, 100.0, 101.0)],
    }


def kept(folder: Path, day: int, *measured: dict[str, Any], chip: str = "Apple M4") -> BenchResult:
    date = f"2026-11-{day:02}T10:00:00+01:00"
    return keep(folder, "decode", "short", "/models/m", 12.5, False, report(date, *measured, chip=chip))


def test_what_is_kept_is_read_again_the_newest_first(tmp_path: Path) -> None:
    written = [kept(tmp_path / "b", day) for day in (3, 20, 7)]
    read = read_kept(tmp_path / "b")
    assert read.results == (written[1], written[2], written[0])
    assert (read.damaged, read.newer) == ((), ())
    assert read.results[0].machine == ("Apple M4", "arm64", "17 GB")
    assert read.results[0].versions == (("mlxr", "0.1.0"), ("mlx", "0.32.4"), ("python", "3.11.7"))
    delete(tmp_path / "b", written[1].name)
    delete(tmp_path / "b", written[1].name)  # another window was quicker
    assert read_kept(tmp_path / "b").results == (written[2], written[0])
    assert {path.name for path in (tmp_path / "b").iterdir()} == {written[2].name, written[0].name}
    assert read_kept(tmp_path / "none").results == ()


@pytest.mark.parametrize(
    "change",
    [
        lambda values: "",
        lambda values: json.dumps(values)[:-40],
        lambda values: "[]",
        lambda values: "[" * 100_000,
        lambda values: json.dumps({**values, "kind": "singing"}),
        lambda values: json.dumps({**values, "seconds": None}),
        lambda values: json.dumps({**values, "report": {**values["report"], "date": "once"}}),
        lambda values: json.dumps({**values, "report": {**values["report"], "rows": [{}]}}),
        lambda values: json.dumps(
            {**values, "report": {**values["report"], "rows": [row("a", "s", float("nan"))]}}
        ),
    ],
)
def test_a_damaged_file_is_named_and_left_alone(tmp_path: Path, change: Any) -> None:
    good = kept(tmp_path, 3)
    bad = tmp_path / kept(tmp_path, 4).name
    words = change(json.loads(bad.read_text()))
    bad.write_text(words)
    read = read_kept(tmp_path)
    assert (read.results, read.damaged) == ((good,), (bad.name,))
    assert bad.read_text() == words
    assert notes(read) == f"{bad.name} is damaged and not shown"


def test_a_result_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / kept(tmp_path, 3).name
    path.write_text(json.dumps({"version": 2, "entirely": "different"}))
    read = read_kept(tmp_path)
    assert (read.results, read.damaged, read.newer) == ((), (), (path.name,))
    assert "newer MLXR" in notes(read)


def test_a_report_that_makes_no_sense_is_not_kept(tmp_path: Path) -> None:
    with pytest.raises(AppError, match="makes no sense"):
        keep(tmp_path, "decode", "short", "m", 1.0, False, {})
    assert list(tmp_path.iterdir()) == []


def measured(
    unit: str, low: float, middle: float, high: float, samples: int = 3, sense: str = ""
) -> Measured:
    return Measured("", "a", unit, middle, low, high, samples, sense)


@pytest.mark.parametrize(
    ("new", "old", "words"),
    [
        (measured("tok/s", 109, 110, 111), measured("tok/s", 99, 100, 101), "+10.0 % better"),
        (measured("tok/s", 89, 90, 91), measured("tok/s", 99, 100, 101), "-10.0 % worse"),
        (measured("s", 1.09, 1.1, 1.11), measured("s", 0.99, 1.0, 1.01), "+10.0 % worse"),
        (measured("x", 0.4, 0.5, 0.6, sense="at most"), measured("x", 0.99, 1, 1.01), "-50.0 % better"),
        (measured("", 430, 430, 430), measured("", 400, 400, 400), "+7.5 %"),
        (measured("tok/s", 95, 110, 111), measured("tok/s", 99, 100, 101), "within the spread"),
        (measured("tok/s", 109, 110, 111), measured("tok/s", 88, 100, 101), "within the spread"),
        (measured("", 4, 4, 4), measured("", 4, 4, 4), "the same"),
        (measured("tok/s", 109, 110, 111, samples=2), measured("tok/s", 99, 100, 101), ""),
        (measured("tok/s", 1, 1, 1), measured("tok/s", 0, 0, 0), ""),
        (measured("share", 0, 0, 0), measured("share", 0, 0, 0), "the same"),
        (measured("tok/s", 1, 1, 1), None, ""),
    ],
)
def test_a_difference_is_told_where_it_exceeds_the_spread(
    new: Measured, old: Measured | None, words: str
) -> None:
    assert difference(new, old) == words


def test_only_the_same_plan_model_and_machine_are_compared(tmp_path: Path) -> None:
    first = kept(tmp_path, 1)
    kept(tmp_path, 2, chip="Apple M1")
    last = kept(tmp_path, 3)
    known = read_kept(tmp_path)
    assert earlier(last, known) == first
    assert earlier(first, known) is None
    for other in (
        replace(last, kind="prompts"),
        replace(last, length="long"),
        replace(last, model="/models/n"),
        replace(last, is_disturbed=True),
    ):
        assert earlier(other, known) is None
    disturbed = replace(first, is_disturbed=True)
    assert earlier(last, replace(known, results=(last, disturbed))) is None


def test_the_table_and_its_markdown_say_the_same(tmp_path: Path) -> None:
    old = kept(tmp_path, 1, row("decode at 200 tokens", "tok/s", 99.0, 100.0, 101.0))
    new = kept(
        tmp_path,
        2,
        row("decode at 200 tokens", "tok/s", 119.0, 120.0, 121.0),
        row("restored | read", "share", 0.7, 0.75, 0.8),
    )
    shown = rows(new, old)
    assert shown[0] == ("Decode at 200 tokens", "120 tok/s", "119–121", "100 tok/s", "+20.0 % better")
    assert shown[1] == ("Restored | read", "75 %", "70–80", "", "")
    words = markdown(new, old, "Tiny")
    assert words.startswith("**Decode, short** of Tiny, 2026-11-02 10:00\n")
    assert "Apple M4, arm64, 17 GB; metal; mlxr 0.1.0, mlx 0.32.4, python 3.11.7." in words
    assert "| Decode at 200 tokens | 120 tok/s | 119–121 | 100 tok/s | +20.0 % better |" in words
    assert "Restored \\| read" in words


def test_prompts_are_as_long_as_the_model_allows() -> None:
    assert SIZES["long"].within(8192) == SIZES["long"]
    assert SIZES["long"].within(2048).contexts == (200, 2048 - SIZES["long"].decoded)
    assert SIZES["long"].within(100).contexts == (100 - SIZES["long"].decoded,)
    plan = BenchPlan("prompts", "long", "/models/m")
    assert plan.about(SIZES["long"]).startswith(
        "How soon the first token comes behind a prompt of 200 and 4,000"
    )
