"""What the engine tells of single pages to who watches them."""

from __future__ import annotations

from dataclasses import dataclass

CACHED = 1
RUNNING = 2
SHARED = 4
PINNED = 8
ON_SSD = 16
"""Bits of a page's state. A page without any is free.

CACHED: it is kept to be found again. RUNNING: a running answer holds it. SHARED: more than one chat owns it,
or more than one running answer holds it. PINNED: a pinned chat owns it. ON_SSD: a copy lies there.
"""


@dataclass(frozen=True, slots=True)
class PageMap:
    """The pages of a model, told when something has changed while they are watched (see WatchPages).

    Attributes:
        model: its path, as in ModelInfo.
        at: when it was told, in seconds of time.perf_counter.
        total_pages: all that its arena may have now.
        states: a byte a page, of the bits above, of the first pages; all behind them are free.
        owner_of: of each of these pages its place in `owners`, as native unsigned 32-bit integers.
        owners: sets of chats, sorted; the first is empty: of free pages, and of those that are no chat's.
        used_at: of each of these pages when it was last used, known to a tenth of a second, as native 64-bit
            floats: seconds of time.perf_counter; 0 for a page that runs or is free.
    """

    model: str
    at: float
    total_pages: int
    states: bytes
    owner_of: bytes
    owners: tuple[tuple[str, ...], ...]
    used_at: bytes


@dataclass(frozen=True, slots=True)
class Bandwidth:
    """The answer to MeasureBandwidth: bytes a second that this machine reads; None where it had no time."""

    bytes_per_second: float | None
