"""Rows of measurements: a median with its spread, a target beside it, and whether it was reached."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from statistics import median
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Target:
    """What a median should be: "at least" or "at most" `value`."""

    sense: Literal["at least", "at most"]
    value: float

    def met_by(self, measured: float) -> bool:
        """Whether `measured` reaches the target."""
        return measured >= self.value if self.sense == "at least" else measured <= self.value


@dataclass(frozen=True, slots=True)
class Row:
    """One measured quantity.

    Attributes:
        what: the quantity, for people.
        unit: of all values: "tok/s", "GB/s", "s", "ms", "µs", "share", "core" for a share of
            a processor core, "x" for a ratio, or "" for a count.
        samples: the measurements, in the order taken.
        target: what it should reach, or None where nothing is promised.
        group: the heading it stands under.
        of_medians: of a ratio, that of both sides' medians; `middle` is the median of the pairs' ratios.
    """

    what: str
    unit: str
    samples: tuple[float, ...]
    target: Target | None = None
    group: str = ""
    of_medians: float | None = None

    @property
    def middle(self) -> float:
        """The median."""
        return median(self.samples)

    @property
    def verdict(self) -> str:
        """ "pass", "short", or "" without a target."""
        if self.target is None:
            return ""
        return "pass" if self.target.met_by(self.middle) else "short"

    def as_json(self) -> dict[str, Any]:
        """The row as plain values."""
        return {
            "group": self.group,
            "what": self.what,
            "unit": self.unit,
            "median": self.middle,
            "low": min(self.samples),
            "high": max(self.samples),
            "of_medians": self.of_medians,
            "samples": list(self.samples),
            "target": asdict(self.target) if self.target else None,
            "verdict": self.verdict or None,
        }


def ratio_row(
    what: str, ours: Sequence[float], theirs: Sequence[float], target: Target | None, group: str
) -> Row:
    """Ours to theirs, pair by pair, so that what slows the whole machine for a moment cancels out."""
    samples = tuple(one / other for one, other in zip(ours, theirs, strict=True))
    return Row(what, "x", samples, target, group, median(ours) / median(theirs))


def table(rows: Sequence[Row]) -> Iterable[str]:
    """The rows for people, in columns, under a heading where the group changes."""
    width = max(len(row.what) for row in rows)
    for group, members in groupby(rows, key=lambda row: row.group):
        if group:
            yield f"{group}:"
        for row in members:
            yield _line(row, width)


def _line(row: Row, width: int) -> str:
    spread = f"({_number(min(row.samples))}–{_number(max(row.samples))})"
    indent = "  " if row.group else ""
    line = f"{indent}{row.what:<{width}}  {_number(row.middle):>8} {row.unit:<5}  {spread:<18}"
    if row.of_medians is not None:
        line += f"  of medians {_number(row.of_medians):<6}"
    if row.target is not None:
        sign = "≥" if row.target.sense == "at least" else "≤"
        line += f"  target {sign} {_number(row.target.value):<6} {row.verdict}"
    return line.rstrip()


def _number(value: float) -> str:
    """Three digits that count, without an exponent."""
    if abs(value) >= 100 or value == 0:
        return f"{value:,.0f}"
    return f"{value:.{2 - math.floor(math.log10(abs(value)))}f}"
