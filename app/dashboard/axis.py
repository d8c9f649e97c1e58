"""Round numbers for the axes of charts; without Qt."""

from __future__ import annotations

import math

_STEPS = (1.0, 2.0, 5.0, 10.0)


def ticks(highest: float, most: int = 5) -> list[float]:
    """Round values from 0 up to the first that is not below `highest`, at most `most` + 1 of them.

    They are apart by 1, 2 or 5 times a power of ten. Nothing positive to show makes an axis up to 1.
    """
    if not highest > 0 or not math.isfinite(highest):
        return [0.0, 1.0]
    rough = highest / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(step * power for step in _STEPS if step * power >= rough * (1 - 1e-9))
    count = math.ceil(highest / step - 1e-9)
    return [place * step for place in range(count + 1)]


def number_words(value: float) -> str:
    """A value on an axis or in a card: 1,234 · 56 · 7.8 · 0.12; 0 is 0."""
    size = abs(value)
    if size >= 10 or value == 0:
        return f"{value:,.0f}"
    return f"{value:.1f}".removesuffix(".0") if size >= 1 else f"{value:.2g}"


def ago_words(seconds: float) -> str:
    """How long ago: "now", "30 s ago", "1 min ago", "90 s ago", "2 min ago"."""
    if seconds < 1:
        return "now"
    whole = round(seconds)
    return f"{whole} s ago" if whole < 120 and whole != 60 else f"{seconds / 60:.0f} min ago"
