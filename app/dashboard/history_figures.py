"""The history in words: its cards, the lines of their charts, two groups compared, the rows; without Qt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from app.dashboard.axis import number_words
from app.dashboard.history_times import Mark, SpanName, axis_marks, bucket_words, when_words
from app.dashboard.live_cards import NONE, Face, time_words, value_words
from app.dashboard.series import finite
from app.history.records import Field, Figures, Group, RequestRecord
from app.history.requests import RequestStore
from app.history.spans import Span

LATEST = 50
"""Requests in the table of the latest ones."""

MOST_GROUPS = 20
FIELDS: dict[Field, str] = {
    "model": "Model",
    "kv_bits": "KV cache",
    "temperature": "Temperature",
    "top_p": "Top-p",
    "top_k": "Top-k",
    "min_p": "Min-p",
    "answers": "Answers at once",
    "executor": "Executor",
    "version": "MLXR version",
}
"""What may be compared."""

LATEST_COLUMNS = (
    "When", "Model", "Chat", "Prompt", "Cached", "Written", "First token", "tok/s", "Outcome",
)  # fmt: skip
Value = str | int | float | None
Row = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HistoryCard:
    """A card of the history.

    Attributes:
        unit: of the chart's values.
        value: of some requests, for the chart; None where there is none.
        face: what the card says of them.
        is_count: whether values are whole numbers.
    """

    key: str
    title: str
    unit: str
    value: Callable[[Figures], float | None]
    face: Callable[[Figures], Face]
    is_count: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """Requests with one value of what is compared, or all of them: bucket by bucket."""

    value: Value
    buckets: tuple[Figures, ...]


@dataclass(frozen=True, slots=True)
class Look:
    """What the history answered about a span.

    Attributes:
        by: what is compared; None shows all requests as one line.
        groups: the requests by that, those with most first.
        lines: of all requests, or of the (at most two) groups that are compared.
        latest: the last ones, the latest first.
    """

    name: SpanName
    span: Span
    total: Figures
    by: Field | None
    groups: tuple[Group, ...]
    lines: tuple[Line, ...]
    latest: tuple[RequestRecord, ...]

    @property
    def models(self) -> set[str]:
        """Paths of the models that occur in it."""
        grouped = {str(group.values[0]) for group in self.groups} if self.by == "model" else set[str]()
        return grouped | {request.model for request in self.latest}


@dataclass(frozen=True, slots=True)
class Plot:
    """A card's chart: a value for each bucket in each line, and the words at both axes."""

    title: str
    unit: str
    is_count: bool
    names: tuple[str, ...]
    values: tuple[tuple[float | None, ...], ...]
    buckets: tuple[str, ...]
    marks: tuple[Mark, ...]


def look_up(store: RequestStore, name: SpanName, span: Span, by: Field | None, pair: Sequence[Value]) -> Look:
    """Ask the history. `pair`: the values to compare; else the span's most frequent ones."""
    total, latest = store.figures(span), tuple(store.latest(span, limit=LATEST))
    if by is None:
        return Look(name, span, total, None, (), (Line(None, tuple(store.buckets(span))),), latest)
    groups = tuple(store.groups(span, [by])[:MOST_GROUPS])
    known = [group.values[0] for group in groups]
    wanted = [value for value in pair if value in known]
    wanted += [value for value in known if value not in wanted]
    lines = tuple(Line(value, tuple(store.buckets(span, {by: value}))) for value in wanted[:2])
    return Look(name, span, total, by, groups, lines, latest)


def plot(card: HistoryCard, look: Look, names: Sequence[str]) -> Plot:
    """The chart of a card; `names` of the lines."""
    return Plot(
        card.title,
        card.unit,
        card.is_count,
        tuple(names),
        tuple(tuple(finite(card.value(figures)) for figures in line.buckets) for line in look.lines),
        tuple(bucket_words(look.name, low, high) for low, high in look.span.buckets),
        tuple(axis_marks(look.name, look.span)),
    )


def plot_rows(shown: Plot) -> list[Row]:
    """The table behind a chart: a row for each bucket that has a value other than 0, the latest first."""
    return [
        (bucket, *(value_words(value, shown.unit) for value in values))
        for bucket, *values in reversed(list(zip(shown.buckets, *shown.values, strict=True)))
        if any(values)
    ]


def group_rows(groups: Sequence[Group], words: Callable[[Value], str]) -> list[Row]:
    """What each group comes to, by every card."""
    return [
        (words(group.values[0]), *(_said(card.face(group.figures)) for card in CARDS)) for group in groups
    ]


def setting_words(by: Field, value: Value, name_of: Callable[[str], str]) -> str:
    """A value of a field, for people; `name_of`: a model's name by its path."""
    if by == "model":
        return name_of(str(value)) if value else "no model"
    if by == "kv_bits":
        return "as computed" if value is None else f"{value} bits"
    if isinstance(value, str):
        return value or "unknown"
    return NONE if value is None else f"{value:g}"


def latest_rows(
    requests: Sequence[RequestRecord],
    now: float,
    name_of: Callable[[str], str],
    title_of: Callable[[str], str],
) -> list[Row]:
    """A row for each request, as LATEST_COLUMNS; `now` in seconds since the epoch."""
    return [
        (
            when_words(request.at, now),
            name_of(request.model) if request.model else NONE,
            _chat_words(request, title_of),
            f"{request.prompt_tokens:,}",
            f"{request.cached_tokens + request.restored_tokens:,}",
            f"{request.answer_tokens:,}",
            NONE if request.ttft_ms is None else " ".join(time_words(request.ttft_ms)),
            NONE if request.decode_tps is None else number_words(request.decode_tps),
            _outcome_words(request),
        )
        for request in requests
    ]


def _chat_words(request: RequestRecord, title_of: Callable[[str], str]) -> str:
    if request.client != "window":
        return f"mlxr {request.client}"
    return (title_of(request.chat) if request.chat else "") or NONE


def _outcome_words(request: RequestRecord) -> str:
    if request.outcome == "finished" and request.reason == "length":
        return "out of room"
    return request.outcome


def _said(face: Face) -> str:
    return f"{face.value} {face.unit}".rstrip()


def _requests(figures: Figures) -> Face:
    about = "Everything that was asked of a model here, also what was stopped or failed"
    detail = f"{figures.stopped:,} stopped" if figures.stopped else ""
    return Face(f"{figures.requests:,}", "", detail, about)


def _tokens(figures: Figures) -> Face:
    about = "Tokens of answers; below it those of prompts"
    detail = f"{figures.prompt_tokens:,} in prompts" if figures.prompt_tokens else ""
    return Face(f"{figures.answer_tokens:,}", "", detail, about)


def _first_token(figures: Figures) -> Face:
    about = (
        "From asking to the first token: half of the requests had it within the upper time, 95 in a hundred "
        "within the lower"
    )
    if figures.ttft_p50 is None or figures.ttft_p95 is None:
        return Face(NONE, about=about)
    value, unit = time_words(figures.ttft_p50)
    return Face(value, unit, f"median · p95 {' '.join(time_words(figures.ttft_p95))}", about)


def _decode(figures: Figures) -> Face:
    about = "Tokens written a second: half of the requests were at least about as fast. Below it, tokens read"
    read = f"median · reads {number_words(figures.prefill_p50)}" if figures.prefill_p50 else "median"
    decode = finite(figures.decode_p50)
    if decode is None:
        return Face(NONE, about=about)
    return Face(number_words(decode), "tok/s", read, about)


def _cached(figures: Figures) -> Face:
    about = "Tokens of prompts that were not computed again: found in memory, or read from SSD"
    share = figures.reused_share
    if share is None:
        return Face(NONE, about=about)
    detail = f"{figures.reused_tokens:,} of {figures.prompt_tokens:,} tokens"
    return Face(number_words(100 * share), "%", detail, about)


def _failed(figures: Figures) -> Face:
    about = "Requests that ended with an error; the table below says which, on hover"
    share = f"{number_words(100 * figures.failed / figures.requests)} % of all" if figures.failed else ""
    return Face(f"{figures.failed:,}", "", share, about)


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


CARDS = (
    HistoryCard("requests", "Requests", "", lambda f: f.requests, _requests, is_count=True),
    HistoryCard("tokens", "Tokens written", "", lambda f: f.answer_tokens, _tokens, is_count=True),
    HistoryCard("ttft", "First token", "ms", lambda f: f.ttft_p50, _first_token),
    HistoryCard("decode", "Decode", "tok/s", lambda f: f.decode_p50, _decode),
    HistoryCard("cached", "Cached", "%", lambda f: _percent(f.reused_share), _cached),
    HistoryCard("failed", "Failed", "", lambda f: f.failed, _failed, is_count=True),
)
