"""Where a sliding window begins."""

from __future__ import annotations


def first_seen(position: int, window: int | None) -> int:
    """The first position that a token at `position` sees.

    `window`: how many positions it sees, its own among them; None for all.
    """
    return 0 if window is None else max(0, position - window + 1)
