"""The status line shows what engine events have said, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.chat.engine_status import EngineStatus, StatusTexts, fold, status_texts
from engine import (
    CacheReport,
    Event,
    Failed,
    Finished,
    LoadProgress,
    MemoryUse,
    ModelReady,
    ModelUnloaded,
    PrefillProgress,
    RequestStats,
    Stats,
    TextChunk,
    Timing,
)
from tests.fakes.scripted_engine import model_info

READY = ModelReady("load", model_info("/models/tiny"))


def after(*events: Event) -> EngineStatus:
    status = EngineStatus()
    for event in events:
        status = fold(status, event)
    return status


def stats(
    active: str = "r", *, tokens: int = 40, tps: float = 31.4, pages: int = 3, queued: int = 0
) -> Stats:
    return Stats(active, queued, tokens, tps, 900.0, pages, 512, 0, 0)


def test_nothing_is_shown_before_a_model_is_ready() -> None:
    assert status_texts(after()) == StatusTexts()
    assert status_texts(after(LoadProgress("load", 1, 2))) == StatusTexts()


def test_a_ready_model_shows_its_limits() -> None:
    assert status_texts(after(READY)) == StatusTexts("", "", "0 / 2,048 tokens", "0 / 512 pages")


def test_prefill_shows_how_far_it_is() -> None:
    assert (
        status_texts(after(READY, PrefillProgress("r", 512, 1800, 0))).activity
        == "Reading 512 of 1,800 tokens"
    )
    assert status_texts(after(READY, PrefillProgress("r", 1800, 1800, 0))).activity == ""


def test_prefill_counts_what_is_not_cached() -> None:
    texts = status_texts(after(READY, PrefillProgress("r", 8122, 8140, 8112)))
    assert texts.activity == "Reading 10 of 28 new tokens · 8,112 cached"


def test_prefill_says_what_is_left_and_why_it_is_so_much() -> None:
    missed = CacheReport("r", 8140, 8, 0, 8, "evicted")
    progress = PrefillProgress("r", 512, 8140, 8, 90.0)
    texts = status_texts(after(READY, CacheReport("other", 9000, 0, 0), missed, progress))
    assert texts.activity == "Reading 504 of 8,132 new tokens · 8 cached · about 90 s left"
    assert texts.why == "the rest was no longer kept"
    begun = after(READY, missed, progress, TextChunk("r", "a", 1))
    assert status_texts(begun).why == ""
    assert not begun.found


@pytest.mark.parametrize(
    "event",
    [
        TextChunk("other", "a", 1),
        Finished("other", "stop", "a", (1,), (2,), None, Timing(1.0, 3, 0, 1.0, 5.0)),
        Failed("other", "no", "NoModel"),
    ],
)
def test_a_prompt_is_read_on_while_another_answer_is_written_or_ends(event: Event) -> None:
    read_on = after(READY, PrefillProgress("r", 512, 1800, 0), event)
    assert status_texts(read_on).activity == "Reading 512 of 1,800 tokens"
    elsewhere = status_texts(read_on, reads_elsewhere=True).activity
    assert elsewhere == "Another answer: reading 512 of 1,800 tokens"


def test_decoding_shows_the_pulse() -> None:
    texts = status_texts(after(READY, PrefillProgress("r", 9, 1800, 0), TextChunk("r", "a", 1), stats()))
    assert texts == StatusTexts("", "31 tok/s", "0 / 2,048 tokens", "3 / 512 pages")


@pytest.mark.parametrize(("tokens", "said"), [(1234, "1,234"), (None, "–")])
def test_the_context_is_that_of_the_chat_on_show(tokens: int | None, said: str) -> None:
    busy_elsewhere = after(READY, stats(tokens=40))
    assert status_texts(busy_elsewhere, tokens).context == f"{said} / 2,048 tokens"


def test_slow_models_get_a_decimal() -> None:
    assert status_texts(after(READY, stats(tps=2.345))).speed == "2.3 tok/s"


def test_a_finished_answer_leaves_its_speed() -> None:
    end = Finished("r", "stop", "a b", (1, 2), (3, 4, 5), None, Timing(81.0, 3, 0, 1.0, 55.0))
    kept = replace(stats("", tokens=0, tps=0.0, pages=0), cached_pages=4)
    texts = status_texts(after(READY, stats(), end, kept))
    assert texts == StatusTexts("", "55 tok/s", "0 / 2,048 tokens", "4 / 512 pages", "first token 81 ms")


def test_several_answers_the_first_token_and_memory_are_told_while_they_run() -> None:
    began = RequestStats("r", "", 9, 9, 3, 1234.0, 90.0, 30.0)
    memory = MemoryUse(0, 0, 191_000_000, False)
    busy = replace(stats(), running=3, requests=(began,), memory=memory)
    texts = status_texts(after(READY, busy))
    assert (texts.speed, texts.first, texts.memory) == (
        "31 tok/s for 3 answers",
        "first token 1.2 s",
        "191 MB",
    )


@pytest.mark.parametrize(("running", "speed"), [(2, "31 tok/s"), (3, "31 tok/s for 2 answers")])
def test_an_answer_whose_prompt_is_read_has_no_share_of_the_speed(running: int, speed: str) -> None:
    writes = RequestStats("r", "", 9, 9, 3, 1234.0, 90.0, 30.0)
    reads = RequestStats("other", "", 9000, 500, 0, 0.0, 90.0, 0.0)
    busy = replace(stats(), running=running, requests=(writes, reads))
    assert status_texts(after(READY, busy)).speed == speed


def test_a_failure_ends_the_prefill() -> None:
    assert (
        status_texts(after(READY, PrefillProgress("r", 1, 9, 0), Failed("r", "no", "NoModel"))).activity == ""
    )


def test_waiting_requests_are_counted() -> None:
    assert status_texts(after(READY, stats(queued=2))).activity == "2 waiting"


def test_another_model_starts_afresh_and_unloading_empties() -> None:
    assert after(READY, stats(), READY) == after(READY)
    assert after(READY, stats(), ModelUnloaded("/models/tiny")) == EngineStatus()
