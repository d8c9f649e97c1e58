"""Results of benchmarks in words: rows of a table, what differs from an earlier one, and Markdown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from app.amounts import duration
from app.dashboard.bench_plans import KINDS, LENGTHS
from app.dashboard.bench_results import BenchResult, Kept, Measured

COLUMNS = ("Measured", "Median", "Lowest–highest", "Earlier", "Difference")
KEPT_COLUMNS = ("When", "Benchmark", "Model", "Took", "Version")
WITHIN = "within the spread"
FEWEST = 3
"""Samples that show a spread."""
LESS_IS_BETTER = ("s", "ms", "µs")
MORE_IS_BETTER = ("tok/s", "GB/s")


def difference(new: Measured, old: Measured | None) -> str:
    """Percent of the earlier median.

    Told where the medians are further apart than either result's samples are among themselves; of fewer than
    FEWEST samples, which show no spread, nothing is.
    """
    if old is None or min(new.samples, old.samples) < FEWEST:
        return ""
    change = new.median - old.median
    if abs(change) <= max(new.high - new.low, old.high - old.low):
        return WITHIN if change else "the same"
    if old.median == 0:
        return ""
    percent = 100 * change / abs(old.median)
    return f"{percent:+.1f} % {_judged(new, change)}".rstrip()


def _judged(row: Measured, change: float) -> str:
    if row.sense == "at most" or row.unit in LESS_IS_BETTER:
        return "worse" if change > 0 else "better"
    if row.sense == "at least" or row.unit in MORE_IS_BETTER:
        return "better" if change > 0 else "worse"
    return ""


def earlier(result: BenchResult, kept: Kept) -> BenchResult | None:
    """The last one before `result` that measured the same on this machine, undisturbed; None without one."""
    if result.is_disturbed:
        return None
    return next(
        (
            other
            for other in kept.results
            if other.at < result.at and other.is_like(result) and not other.is_disturbed
        ),
        None,
    )


def rows(result: BenchResult, before: BenchResult | None) -> list[tuple[str, ...]]:
    """A row of COLUMNS for each quantity."""
    known = {(row.group, row.what, row.unit): row for row in before.rows} if before else {}
    return [_row(row, known.get((row.group, row.what, row.unit))) for row in result.rows]


def _row(row: Measured, old: Measured | None) -> tuple[str, ...]:
    return (
        row.what[:1].upper() + row.what[1:],
        amount(row.median, row.unit),
        "" if row.low == row.high else _spread(row),
        amount(old.median, old.unit) if old else "",
        difference(row, old),
    )


def _spread(row: Measured) -> str:
    scale = 100 if row.unit == "share" else 1
    return f"{number(scale * row.low)}–{number(scale * row.high)}"


def kept_rows(kept: Kept, name_of: Callable[[str], str]) -> list[tuple[str, ...]]:
    """A row of KEPT_COLUMNS for each result."""
    return [
        (when(one), title(one), name_of(one.model), duration(one.seconds), dict(one.versions).get("mlxr", ""))
        for one in kept.results
    ]


def title(result: BenchResult) -> str:
    """Its plan."""
    return f"{KINDS[result.kind]}, {LENGTHS[result.length].lower()}"


def when(result: BenchResult) -> str:
    """When it began, as the clock stood there."""
    return f"{datetime.fromisoformat(result.date):%Y-%m-%d %H:%M}"


def notes(kept: Kept) -> str:
    """What of the folder cannot be shown, one line; "" where all is."""
    said: list[str] = []
    if kept.newer:
        said.append(f"{_files(kept.newer)} of a newer MLXR: update this one to see what it says")
    if kept.damaged:
        said.append(f"{_files(kept.damaged)} damaged and not shown")
    return "; ".join(said)


def usual_words(seconds: float | None) -> str:
    """How long a benchmark will take, as far as this machine has shown it."""
    if seconds is None:
        return "How long it takes here is known after the first run."
    return f"It took {duration(max(1, seconds))} last time."


def progress_words(phase: str, seconds: float, usual: float | None, said: str) -> str:
    """How far a benchmark is: "waiting", "running" or "stopping", with what it told last."""
    if phase == "waiting":
        return "Waiting until no answer is being written and the model has left memory"
    if phase == "stopping":
        return "Stopping"
    of = f" of about {duration(usual)}" if usual is not None and usual > seconds else ""
    return f"{duration(seconds)}{of}: {said or 'starting'}"


def compared_words(result: BenchResult, before: BenchResult | None) -> str:
    """What the table of a result is, one line."""
    if result.is_disturbed:
        return "A chat went on meanwhile: these figures are too low, and are compared with nothing."
    if before is None:
        return "Nothing earlier on this machine to compare it with."
    return f"Compared with {when(before)}; a difference is told where it exceeds the spread of both."


def markdown(result: BenchResult, before: BenchResult | None, name: str) -> str:
    """The result as Markdown, with machine and versions; `name` is the model's."""
    machine = ", ".join(filter(None, result.machine))
    versions = ", ".join(f"{of} {number}" for of, number in result.versions)
    lines = [
        f"**{title(result)}** of {name}, {when(result)}",
        "",
        f"{machine}; {result.executor}; {versions}. {compared_words(result, before)}",
        "",
        _line(COLUMNS),
        _line(("---", *["---:"] * (len(COLUMNS) - 1))),
        *(_line(row) for row in rows(result, before)),
    ]
    return "\n".join(lines) + "\n"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def amount(value: float, unit: str) -> str:
    """A number with its unit."""
    return f"{number(value)} {unit}".rstrip() if unit != "share" else f"{number(100 * value)} %"


def number(value: float) -> str:
    """Three digits that count."""
    if abs(value) >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) >= 0.001 else f"{value:.2e}"


def _files(names: Sequence[str]) -> str:
    return f"{names[0]} is" if len(names) == 1 else f"{len(names)} results are"
