"""What is asked of the history, against a plain model: a list of records and a few lines of arithmetic."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.history.records import Field, Figures, RequestRecord, Where
from app.history.requests import COLUMNS, RequestStore
from app.history.spans import Span
from tests.app.history.conftest import open_store, record

ALL = Span((-1e12, 1e12))


def percentile(values: Sequence[float | None], percent: int) -> float | None:
    """Nearest rank: the smallest value that so many percent are not above."""
    known = sorted(value for value in values if value is not None)
    return known[math.ceil(len(known) * percent / 100) - 1] if known else None


def figures(records: Sequence[RequestRecord]) -> Figures:
    """The model of Figures."""
    return Figures(
        requests=len(records),
        stopped=[r.outcome for r in records].count("stopped"),
        failed=[r.outcome for r in records].count("failed"),
        prompt_tokens=sum(r.prompt_tokens for r in records),
        reused_tokens=sum(r.cached_tokens + r.restored_tokens for r in records),
        answer_tokens=sum(r.answer_tokens for r in records),
        drafted_tokens=sum(r.drafted_tokens for r in records),
        accepted_tokens=sum(r.accepted_tokens for r in records),
        ttft_p50=percentile([r.ttft_ms for r in records], 50),
        ttft_p95=percentile([r.ttft_ms for r in records], 95),
        prefill_p50=percentile([r.prefill_tps for r in records], 50),
        decode_p50=percentile([r.decode_tps for r in records], 50),
    )


def matching(records: Sequence[RequestRecord], span: Span, where: Where) -> list[RequestRecord]:
    """The model of a span and a filter."""
    return [
        r
        for r in records
        if span.edges[0] <= (r.since if span.session else r.at) < span.edges[-1]
        and (not span.session or r.session == span.session)
        and all(getattr(r, name) == value for name, value in where.items())
    ]


rates = st.none() | st.sampled_from([0.5, 10.0, 20.0, 20.0, 35.5, 1e6])
tokens = st.integers(0, 5000)
records = st.builds(
    record,
    st.sampled_from([-5.0, 0.0, 9.99, 10.0, 15.0, 25.0, 39.0, 40.0]),
    session=st.sampled_from(["now", "before"]),
    since=st.sampled_from([0.0, 10.0, 25.0, 40.0]),
    model=st.sampled_from(["/m/tiny", "/m/ünder"]),
    kv_bits=st.sampled_from([None, 8]),
    temperature=st.sampled_from([0.0, 0.7]),
    prompt_tokens=tokens,
    cached_tokens=tokens,
    answer_tokens=tokens,
    drafted_tokens=tokens,
    ttft_ms=rates,
    prefill_tps=rates,
    decode_tps=rates,
    outcome=st.sampled_from(["finished", "stopped", "failed"]),
)
spans = st.builds(
    Span, st.sampled_from([(0.0, 10.0, 40.0), (0.0, 5.0, 10.0, 20.0)]), st.sampled_from(["", "now"])
)
wheres = st.sampled_from([{}, {"model": "/m/tiny"}, {"kv_bits": None}, {"kv_bits": 8, "temperature": 0.7}])


@settings(max_examples=60)
@given(st.lists(records, max_size=25), spans, wheres)
def test_sums_and_percentiles_are_those_of_the_model(
    told: list[RequestRecord], span: Span, where: Where
) -> None:
    with open_store() as store:
        for one in told:
            store.add(one)
        chosen = matching(told, span, where)
        assert store.figures(span, where) == figures(chosen)
        assert store.latest(span, where) == chosen[::-1]
        by: tuple[Field, ...] = ("model", "kv_bits")
        assert {group.values: group.figures for group in store.groups(span, by, where)} == {
            key: figures([r for r in chosen if (r.model, r.kv_bits) == key])
            for key in {(r.model, r.kv_bits) for r in chosen}
        }
        parts = [matching(chosen, Span(edges, span.session), where) for edges in span.buckets]
        assert store.buckets(span, where) == [figures(part) for part in parts]


@settings(max_examples=40)
@given(st.lists(records, max_size=25), st.integers(1, 8))
def test_the_newest_are_kept_whatever_the_clock_said(told: list[RequestRecord], kept: int) -> None:
    with open_store(kept) as store:
        for one in told:
            store.add(one)
        assert store.latest(ALL) == told[-kept:][::-1]
        store.clear()
        assert store.latest(ALL) == []


def test_a_request_is_recorded_once(store: RequestStore) -> None:
    one = record()
    store.add(one)
    store.add(one)
    assert store.latest(ALL) == [one]


def test_shares_of_nothing_are_unknown() -> None:
    assert (Figures().reused_share, Figures().accepted_share) == (None, None)
    some = figures([record(), record(prompt_tokens=40, cached_tokens=0, restored_tokens=0, drafted_tokens=0)])
    assert some.reused_share == pytest.approx(70 / 140)
    assert some.accepted_share == pytest.approx(12 / 8)


def test_groups_come_with_most_requests_first(store: RequestStore) -> None:
    for model in ("/m/a", "/m/b", "/m/b"):
        store.add(record(model=model))
    assert [group.values for group in store.groups(ALL, ["model"])] == [("/m/b",), ("/m/a",)]


def test_only_known_fields_reach_sql(store: RequestStore) -> None:
    with pytest.raises(ValueError, match="told apart"):
        store.figures(ALL, {"error = '' --": ""})  # type: ignore[dict-item]


def test_rows_come_in_the_order_of_recording(store: RequestStore) -> None:
    told = [record(at) for at in (5.0, 3.0, 9.0)]
    for one in told:
        store.add(one)
    place = COLUMNS.index("id")
    assert [row[place] for row in store.rows()] == [one.id for one in told]
    assert [row[place] for row in store.rows(Span((4.0, 10.0)))] == [told[0].id, told[2].id]
