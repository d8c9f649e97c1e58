"""The stretches of time that charts show: a session, the last day, the last week, cut into buckets."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

HOURS = 24
DAYS = 7
SESSION_BUCKETS = 60
HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time and its buckets.

    Attributes:
        edges: where buckets begin and, at last, where the span ends, ascending; seconds since the epoch, or
            since the session's start where there is one. A bucket holds its first moment, not its last.
        session: whose time it is; "" is the wall clock's.
    """

    edges: tuple[float, ...]
    session: str = ""

    def __post_init__(self) -> None:
        """Raises ValueError for edges that do not ascend."""
        if len(self.edges) < 2 or any(low >= high for low, high in pairwise(self.edges)):
            raise ValueError(f"a span's edges must ascend, and be two or more: {self.edges}")

    @property
    def buckets(self) -> list[tuple[float, float]]:
        """Where each bucket begins and ends."""
        return list(pairwise(self.edges))


def session_span(session: str, seconds: float) -> Span:
    """The first `seconds` of a session, above 0, in equal buckets; a request at its very end is in it."""
    width = max(seconds, 1.0) / SESSION_BUCKETS
    last = max(seconds, 1.0) * (1 + 1e-9)
    return Span((*(width * place for place in range(SESSION_BUCKETS)), last), session)


def day_span(now: float) -> Span:
    """24 hours, by the clock on the wall, of which the last one holds `now` (seconds since the epoch)."""
    local = datetime.fromtimestamp(now).astimezone()
    into_hour = timedelta(minutes=local.minute, seconds=local.second, microseconds=local.microsecond)
    end = (local - into_hour).timestamp() + HOUR
    return Span(tuple(end - HOUR * before for before in range(HOURS, -1, -1)))


def week_span(now: float) -> Span:
    """Seven days from midnight to midnight, here, of which the last one holds `now` (since the epoch).

    Where clocks are put forward or back, a day has 23 or 25 hours.
    """
    today = datetime.fromtimestamp(now).replace(hour=0, minute=0, second=0, microsecond=0)
    days = (today + timedelta(days=days) for days in range(1 - DAYS, 2))
    return Span(tuple(day.timestamp() for day in days))  # of a naive date: this machine's midnight
