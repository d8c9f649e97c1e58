"""What cards say after scripted events: nothing that no event has said."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.dashboard.live_cards import CARDS, NONE, Face
from app.dashboard.live_figures import LiveFigures, fold
from engine import (
    CacheCounts,
    Event,
    Finished,
    MemoryUse,
    ModelReady,
    ModelUnloaded,
    RequestStats,
    Stats,
    Timing,
    TokenGaps,
)
from tests.fakes.scripted_engine import model_info

INFO = replace(
    model_info("/m"), weight_bytes=2_000_000, step_weight_bytes=1_500_000, page_bytes=64_000, page_size=16
)
QUIET = Stats("", 0, 0, 0.0, 0.0, 0, 512, 0, 0, model="/m", at=1.0)
BUSY = Stats(
    active_id="a",
    queued=3,
    context_tokens=125,
    decode_tps=240.4,
    prefill_tps=1234.0,
    pages_used=8,
    total_pages=512,
    memory_bytes=9_000_000,
    peak_memory_bytes=9_000_000,
    running=2,
    cache=CacheCounts(drafted_tokens=40, accepted_tokens=30),
    model="/m",
    at=2.0,
    requests=(
        RequestStats("a", "chat", 100, 100, 12, 250.0, 400.0, 120.0),
        RequestStats("b", "", 300, 128, 0, 0.0, 0.0, 0.0),
    ),
    gaps=TokenGaps(100, 4.25, 9.0, 31.0),
    memory=MemoryUse(4_000_000, 1_000_000, 200_000_000, False),
)


def faces(*events: Event, bandwidth: float | None = None) -> dict[str, Face]:
    figures = LiveFigures(bandwidth=bandwidth)
    for event in events:
        figures = fold(figures, event)
    return {card.key: card.face(figures) for card in CARDS}


def said(face: Face) -> str:
    return f"{face.value} {face.unit} | {face.detail}"


def test_a_busy_engine() -> None:
    told = {key: said(face) for key, face in faces(ModelReady("", INFO), BUSY, bandwidth=1e9).items()}
    assert told == {
        "decode": "240 tok/s | 2 answers together",
        "prefill": "1,234 tok/s | 128 of 300 tokens read",
        "ttft": "250 ms | last answer",
        "gaps": "4.2 ms | p95 9 · p99 31 ms",
        "batch": "2 running | 3 waiting",
        "guesses": "75 % | 30 of 40 tokens",
        "memory": "200 MB | weights 2.0 MB · KV 4.0 MB",
        # 2 answers x 1e9 / (1.5e6 + 125 x 4000) = 1000 tok/s
        "bandwidth": "24 % | of 1,000 tok/s at 1.0 GB/s",
    }


@pytest.mark.parametrize(
    "events",
    [(), (QUIET,), (ModelReady("", INFO),), (ModelReady("", INFO), QUIET), (BUSY, ModelUnloaded("/m"))],
)
@pytest.mark.parametrize("bandwidth", [None, 1e9])
def test_zero_tokens_and_no_model_make_no_number(events: tuple[Event, ...], bandwidth: float | None) -> None:
    told = faces(*events, bandwidth=bandwidth)
    for key in ("decode", "prefill", "ttft", "gaps", "guesses", "bandwidth"):
        assert (told[key].value, told[key].unit) == (NONE, ""), key


def test_the_last_answer_stays_until_the_model_goes() -> None:
    end = Finished("a", "stop", "", (1, 2), (3,), None, Timing(1500.0, 1, 0, 10.0, 77.0))
    told = faces(ModelReady("", INFO), BUSY, end, QUIET)
    assert said(told["decode"]) == "–  | last answer 77 tok/s"
    assert said(told["ttft"]) == "1.5 s | last answer"
    assert faces(end, ModelReady("", INFO))["ttft"].value == NONE


def test_a_system_short_of_memory_is_told() -> None:
    short = replace(BUSY, memory=replace(BUSY.memory, is_short=True))
    assert faces(ModelReady("", INFO), short)["memory"].detail == "the system is short of memory"


def test_what_a_draft_model_takes_is_told_on_hover() -> None:
    drafting = replace(BUSY, memory=replace(BUSY.memory, draft_bytes=9_900_000))
    without, about = (faces(ModelReady("", INFO), stats)["memory"].about for stats in (BUSY, drafting))
    assert about.splitlines()[3] == "9.9 MB of the model that drafts for it"
    assert "drafts" not in without


def test_the_formula_is_worked_out_on_hover() -> None:
    about = faces(ModelReady("", INFO), BUSY, bandwidth=1e9)["bandwidth"].about
    assert "1.0 GB/s × 2 ÷ 2.0 MB = 1,000 tok/s" in about


def test_every_card_has_a_value_for_each_line() -> None:
    for figures in (LiveFigures(), fold(fold(LiveFigures(), ModelReady("", INFO)), BUSY)):
        for card in CARDS:
            assert len(card.read(figures)) == len(card.lines)
