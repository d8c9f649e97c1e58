"""Spans of the history in words: the time axis, a bucket's time, and when a request was; without Qt."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, get_args

from app import amounts
from app.history.recorder import Recorder
from app.history.spans import Span, day_span, session_span, week_span

SpanName = Literal["session", "day", "week"]
SPAN_NAMES: tuple[SpanName, ...] = get_args(SpanName)
SPAN_WORDS: dict[SpanName, str] = {"session": "This session", "day": "24 hours", "week": "7 days"}
SPAN_PHRASES: dict[SpanName, str] = {
    "session": "this session",
    "day": "the last 24 hours",
    "week": "the last 7 days",
}

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_PARTS = 4
_HOURS_APART = 6

Mark = tuple[float, str]


def span_of(name: SpanName, recorder: Recorder, now: float) -> Span:
    """The span as it is `now`, in seconds since the epoch."""
    if name == "session":
        return session_span(recorder.session, recorder.seconds)
    return day_span(now) if name == "day" else week_span(now)


def axis_marks(name: SpanName, span: Span) -> list[Mark]:
    """What to write below a chart of the span's buckets: shares of its width, and words."""
    begin, end = span.edges[0], span.edges[-1]
    if name == "session":
        marks = [
            (part / _PARTS, amounts.duration((end - begin) * part / _PARTS)) for part in range(1, _PARTS)
        ]
        return [(0.0, "start"), *marks, (1.0, "now")]
    if name == "day":
        hours = list(enumerate(span.edges))[::_HOURS_APART]
        return [((at - begin) / (end - begin), _clock(at)) for _, at in hours]
    days = [(low + high) / 2 for low, high in span.buckets]
    return [
        ((noon - begin) / (end - begin), _day(low)) for noon, (low, _) in zip(days, span.buckets, strict=True)
    ]


def bucket_words(name: SpanName, low: float, high: float) -> str:
    """A bucket's time."""
    if name == "session":
        return f"{amounts.duration(low)} to {amounts.duration(high)} after the start"
    if name == "day":
        return f"{_DAYS[datetime.fromtimestamp(low).weekday()]} {_clock(low)} to {_clock(high)}"
    return _day(low)


def when_words(at: float, now: float) -> str:
    """When a request was: the time today, else the day with it; "–" where that is no time."""
    try:
        moment, today = datetime.fromtimestamp(at), datetime.fromtimestamp(now).date()
    except (ValueError, OverflowError, OSError):
        return "–"
    return f"{moment:%H:%M:%S}" if moment.date() == today else f"{_day(at)} {_clock(at)}"


def _clock(at: float) -> str:
    return f"{datetime.fromtimestamp(at):%H:%M}"


def _day(at: float) -> str:
    moment = datetime.fromtimestamp(at)
    return f"{_DAYS[moment.weekday()]} {moment.day}"
