"""What is said of the history equals what a plain computation over the recorded requests gives."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from datetime import datetime

import pytest

from app.dashboard.history_figures import (
    CARDS,
    HistoryCard,
    Look,
    Value,
    group_rows,
    latest_rows,
    look_up,
    plot,
    plot_rows,
    setting_words,
)
from app.dashboard.history_times import axis_marks, bucket_words, when_words
from app.history.records import Field, Figures, RequestRecord
from app.history.requests import RequestStore
from app.history.spans import Span, day_span, session_span, week_span
from tests.app.history.conftest import open_store, record

NOON = datetime(2026, 3, 18, 12, 20, 5).timestamp()  # a Wednesday
MODELS = ("/m/one", "/m/two", "/m/three")


@pytest.fixture
def store() -> Iterator[RequestStore]:
    with open_store() as made:
        yield made


def some_requests(count: int) -> list[RequestRecord]:
    chance = random.Random(7)
    return [
        record(
            NOON - 3600 * chance.random() * 30,
            session=chance.choice(("now", "before")),
            since=chance.random() * 100,
            model=chance.choice(MODELS),
            kv_bits=chance.choice((None, 8)),
            prompt_tokens=prompt,
            cached_tokens=prompt // 3,
            restored_tokens=prompt // 5,
            answer_tokens=chance.randrange(200),
            ttft_ms=chance.choice((None, chance.uniform(5, 3000))),
            decode_tps=chance.choice((None, chance.uniform(5, 300))),
            outcome=chance.choice(("finished", "finished", "stopped", "failed")),
        )
        for prompt in (chance.randrange(500) for _ in range(count))
    ]


def middle(values: Sequence[float | None]) -> float | None:
    """The nearest-rank median."""
    known = sorted(value for value in values if value is not None)
    return known[math.ceil(len(known) / 2) - 1] if known else None


def plain_value(key: str, requests: Sequence[RequestRecord]) -> float | None:
    match key:
        case "requests":
            return len(requests)
        case "tokens":
            return sum(one.answer_tokens for one in requests)
        case "ttft":
            return middle([one.ttft_ms for one in requests])
        case "decode":
            return middle([one.decode_tps for one in requests])
        case "failed":
            return sum(one.outcome == "failed" for one in requests)
        case _:
            prompt = sum(one.prompt_tokens for one in requests)
            reused = sum(one.cached_tokens + one.restored_tokens for one in requests)
            return 100 * reused / prompt if prompt else None


def ask(store: RequestStore, span: Span, by: Field | None = None, pair: Sequence[Value] = ()) -> Look:
    name = "session" if span.session else "day" if len(span.edges) == 25 else "week"
    return look_up(store, name, span, by, pair)


@pytest.mark.parametrize("span", [day_span(NOON), week_span(NOON), session_span("now", 100.0)])
@pytest.mark.parametrize("card", CARDS, ids=[card.key for card in CARDS])
def test_every_chart_is_the_requests_of_its_buckets(
    store: RequestStore, span: Span, card: HistoryCard
) -> None:
    requests = some_requests(150)
    for one in requests:
        store.add(one)
    mine = [one for one in requests if not span.session or one.session == "now"]
    shown = plot(card, ask(store, span), ["All"])
    expected = [
        plain_value(card.key, [o for o in mine if low <= (o.since if span.session else o.at) < high])
        for low, high in span.buckets
    ]
    assert len(shown.buckets) == len(shown.values[0]) == len(expected)
    assert list(shown.values[0]) == pytest.approx(expected)
    assert [row[0] for row in plot_rows(shown)] == [
        words for words, value in reversed(list(zip(shown.buckets, expected, strict=True))) if value
    ]


def test_two_models_are_two_lines_and_others_can_be_chosen(store: RequestStore) -> None:
    requests = some_requests(120)
    for one in requests:
        store.add(one)
    span = week_span(NOON)
    often = sorted(MODELS, key=lambda model: -sum(one.model == model for one in requests))
    assert [line.value for line in ask(store, span, "model").lines] == often[:2]
    look = ask(store, span, "model", ("/m/gone", often[2]))
    assert [line.value for line in look.lines] == [often[2], often[0]]
    decode = next(card for card in CARDS if card.key == "decode")
    shown = plot(decode, look, ["A", "B"])
    for values, model in zip(shown.values, (often[2], often[0]), strict=True):
        expected = [
            middle([one.decode_tps for one in requests if one.model == model and low <= one.at < high])
            for low, high in span.buckets
        ]
        assert list(values) == pytest.approx(expected)
    rows = group_rows(look.groups, str)
    assert [(row[0], row[1]) for row in rows] == [
        (model, str(sum(one.model == model for one in requests))) for model in often
    ]


def test_a_setting_that_is_none_is_compared_too(store: RequestStore) -> None:
    for bits in (None, None, None, 8, 8):
        store.add(record(NOON, kv_bits=bits))
    look = ask(store, day_span(NOON), "kv_bits")
    assert [line.value for line in look.lines] == [None, 8]
    assert [sum(figures.requests for figures in line.buckets) for line in look.lines] == [3, 2]
    said = [setting_words("kv_bits", line.value, str) for line in look.lines]
    assert said == ["as computed", "8 bits"]


def test_nothing_asked_makes_no_number(store: RequestStore) -> None:
    look = ask(store, day_span(NOON), "model")
    assert (look.groups, look.lines, look.latest) == ((), (), ())
    said = {card.key: (card.face(look.total).value, card.face(look.total).detail) for card in CARDS}
    assert said == {
        "requests": ("0", ""),
        "tokens": ("0", ""),
        "ttft": ("–", ""),
        "decode": ("–", ""),
        "cached": ("–", ""),
        "failed": ("0", ""),
    }
    assert all(card.face(Figures()).unit == "" for card in CARDS)


def test_cards_in_words() -> None:
    figures = Figures(1234, 2, 30, 10_000, 2_500, 56_789, 0, 0, 85.4, 1234.0, 900.4, 62.0)
    said = {card.key: card.face(figures) for card in CARDS}
    assert {key: f"{face.value} {face.unit} | {face.detail}" for key, face in said.items()} == {
        "requests": "1,234  | 2 stopped",
        "tokens": "56,789  | 10,000 in prompts",
        "ttft": "85 ms | median · p95 1.2 s",
        "decode": "62 tok/s | median · reads 900",
        "cached": "25 % | 2,500 of 10,000 tokens",
        "failed": "30  | 2.4 % of all",
    }


def test_a_value_that_is_no_number_is_not_drawn(store: RequestStore) -> None:
    store.add(record(NOON, decode_tps=math.inf))
    decode = next(card for card in CARDS if card.key == "decode")
    assert decode.face(ask(store, day_span(NOON)).total).value == "–"
    assert set(plot(decode, ask(store, day_span(NOON)), ["All"]).values[0]) == {None}


def test_latest_requests_in_words() -> None:
    rows = latest_rows(
        [
            record(NOON - 60, model="/m/tiny", chat="a", ttft_ms=1500.0),
            record(
                NOON - 86_400, client="generate", chat="", ttft_ms=None, decode_tps=None, outcome="failed"
            ),
            record(NOON + 9, chat="gone", reason="length"),
        ],
        NOON,
        lambda path: path.upper(),
        lambda chat: "Pages" if chat == "a" else "",
    )
    assert rows == [
        ("12:19:05", "/M/TINY", "Pages", "100", "70", "20", "1.5 s", "60", "finished"),
        ("Tue 17 12:20", "/M/TINY", "mlxr generate", "100", "70", "20", "–", "–", "failed"),
        ("12:20:14", "/M/TINY", "–", "100", "70", "20", "50 ms", "60", "out of room"),
    ]


def test_axes_say_when_buckets_are() -> None:
    day = axis_marks("day", day_span(NOON))
    assert day == [(0.0, "13:00"), (0.25, "19:00"), (0.5, "01:00"), (0.75, "07:00"), (1.0, "13:00")]
    week = axis_marks("week", week_span(NOON))
    assert [words for _, words in week] == [
        "Thu 12", "Fri 13", "Sat 14", "Sun 15", "Mon 16", "Tue 17", "Wed 18",
    ]  # fmt: skip
    assert [share for share, _ in week] == pytest.approx([(2 * day + 1) / 14 for day in range(7)])
    session = axis_marks("session", session_span("now", 400.0))
    assert [words for _, words in session] == ["start", "1 min 40 s", "3 min 20 s", "5 min 0 s", "now"]
    low, high = day_span(NOON).buckets[-1]
    assert bucket_words("day", low, high) == "Wed 12:00 to 13:00"
    assert bucket_words("session", 60.0, 90.0) == "1 min 0 s to 1 min 30 s after the start"
    assert bucket_words("week", *week_span(NOON).buckets[0]) == "Thu 12"
    assert when_words(NOON, NOON) == "12:20:05"
    assert [when_words(wrong, NOON) for wrong in (1e18, -1e18, math.nan)] == ["–"] * 3
