"""Rows of measurements: a median with its spread, a target beside it, and whether it was reached."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
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
        unit: of all values: "tok/s", "s", "ms" or "x" for a ratio.
        samples: the measurements, in the order taken.
        target: what it should reach, or None where nothing is promised.
    """

    what: str
    unit: str
    samples: tuple[float, ...]
    target: Target | None = None

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
            "what": self.what,
            "unit": self.unit,
            "median": self.middle,
            "low": min(self.samples),
            "high": max(self.samples),
            "samples": list(self.samples),
            "target": asdict(self.target) if self.target else None,
            "verdict": self.verdict or None,
        }


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, ...]:
    """Pair by pair, so that what slows the whole machine for a moment cancels out."""
    return tuple(one / other for one, other in zip(ours, theirs, strict=True))


def table(rows: Sequence[Row]) -> Iterable[str]:
    """The rows for people, in columns."""
    width = max(len(row.what) for row in rows)
    for row in rows:
        spread = f"({_number(min(row.samples))}–{_number(max(row.samples))})"
        line = f"{row.what:<{width}}  {_number(row.middle):>8} {row.unit:<5}  {spread:<18}"
        if row.target is not None:
            sign = "≥" if row.target.sense == "at least" else "≤"
            line += f"  target {sign} {_number(row.target.value):<6} {row.verdict}"
        yield line.rstrip()


def _number(value: float) -> str:
    """Three digits that count, without an exponent."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.3f}" if value < 1 else f"{value:.2f}"
