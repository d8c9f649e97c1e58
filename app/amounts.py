"""Bytes, seconds, weights and tokens as people read them."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """So many things: 1 page, 2,000 pages."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def size(count: float) -> str:
    """Bytes in decimal units: 8.8 MB."""
    value = float(count)
    if value == 1:
        return "1 byte"
    for unit in ("bytes", "kB", "MB", "GB"):
        if value < 999.5:  # what rounds to 1,000 is one of the next unit
            return f"{value:.0f} {unit}" if unit == "bytes" or value >= 99.95 else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


def duration(seconds: float) -> str:
    """Hours, minutes and seconds: 1 min 40 s."""
    minutes, rest = divmod(round(seconds), 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def percent(part: int, whole: int) -> float:
    """100 is said of all, and of nothing less."""
    return 100.0 if part == whole else min(99.0, 100 * part / whole)


def count(number: int) -> str:
    """Weights, or downloads, in short: 7B, 134k."""
    for limit, letter in ((10**9, "B"), (10**6, "M"), (10**3, "k")):
        if number >= limit:
            value = number / limit
            digits = f"{value:.0f}" if value >= 100 else f"{value:.1f}".removesuffix(".0")
            return f"{digits}{letter}"
    return str(number)


def tokens(number: int) -> str:
    """The length of a context: 8k is 8192; 2,000."""
    return f"{number // 1024}k" if number >= 1024 and not number % 1024 else f"{number:,}"
