"""An answer folds engine events into its message."""

from __future__ import annotations

import pytest

from app.chat.answer import Answer, advance
from app.chat.open_chat import ChatState, state_of
from app.store.records import ChatMessage
from engine import (
    CacheReport,
    Event,
    Failed,
    Finished,
    FinishReason,
    PrefillProgress,
    Stats,
    TextChunk,
    Timing,
    Waiting,
)

TIMING = Timing(80.0, 10, 0, 500.0, 60.0)


def start() -> Answer:
    return Answer("r", ChatMessage("c", "assistant", status="streaming"))


def after(*events: Event) -> Answer:
    answer = start()
    for event in events:
        answer = advance(answer, event)
    return answer


def test_it_says_what_it_waits_for_until_it_begins() -> None:
    waiting = after(Waiting("r", "a has no room"))
    assert state_of([waiting]) == ChatState("waiting", why="a has no room")
    assert state_of([advance(waiting, TextChunk("r", "Hel", 1))]) == ChatState("streaming")


def test_it_waits_then_prefills_then_streams() -> None:
    assert start().phase == "waiting"
    reading = after(PrefillProgress("r", 512, 2000, 0))
    assert reading.cached == 0
    assert (reading.phase, reading.prefill_done, reading.prefill_total) == ("prefilling", 512, 2000)
    streaming = advance(reading, TextChunk("r", "Hel", 1))
    streaming = advance(streaming, TextChunk("r", "lo", 2))
    assert (streaming.phase, streaming.message.text, streaming.message.generated_tokens) == (
        "streaming",
        "Hello",
        2,
    )
    assert not streaming.over


@pytest.mark.parametrize(
    ("reason", "status"), [("stop", "complete"), ("length", "length"), ("cancelled", "stopped")]
)
def test_finishing_keeps_tokens_and_timing(reason: FinishReason, status: str) -> None:
    end = after(TextChunk("r", "Hello", 2), Finished("r", reason, "Hello", (7, 8), (1, 2), None, TIMING))
    assert end.over
    assert end.message.status == status
    assert end.message.text == "Hello"
    assert end.message.tokens == (7, 8)
    assert (end.message.ttft_ms, end.message.decode_tps) == (80.0, 60.0)


def test_only_what_is_not_cached_is_to_be_read() -> None:
    found = after(CacheReport("r", 8140, 8000, 112))
    assert (found.phase, found.prefill_done, found.prefill_total, found.cached) == ("prefilling", 0, 28, 8112)
    reading = advance(found, PrefillProgress("r", 8130, 8140, 8112))
    assert (reading.prefill_done, reading.prefill_total, reading.cached) == (18, 28, 8112)
    restoring = advance(found, PrefillProgress("r", 8000, 8140, 8112))
    assert restoring.prefill_done == 0


def test_what_is_left_and_why_is_part_of_the_state_while_the_prompt_is_read() -> None:
    report = CacheReport("r", 8140, 8, 0, 8, "evicted")
    reading = after(report, PrefillProgress("r", 500, 8140, 8, 90.0))
    state = state_of((reading,))
    assert (state.left, state.why) == (90.0, "the rest was no longer kept")
    assert state_of((advance(reading, TextChunk("r", "Hi", 1)),)) == ChatState("streaming")


def test_what_was_read_again_is_kept_with_the_answer() -> None:
    end = after(
        CacheReport("r", 600, 512, 0, 512, "edited"),
        TextChunk("r", "Hello", 2),
        Finished("r", "stop", "Hello", (7, 8), (1, 2), None, TIMING),
    )
    assert (end.message.missed_from, end.message.miss_reason) == (512, "edited")
    whole = after(CacheReport("r", 600, 512, 0))
    assert (whole.message.missed_from, whole.message.miss_reason) == (None, "")


def test_failing_keeps_what_was_written() -> None:
    end = after(TextChunk("r", "Half an", 2), Failed("r", "the model broke", "NonFiniteLogits"))
    assert end.over
    assert (end.message.status, end.message.text, end.message.error) == (
        "failed",
        "Half an",
        "the model broke",
    )


def test_other_events_change_nothing() -> None:
    waiting = start()
    assert advance(waiting, Stats("r", 0, 5, 1.0, 1.0, 1, 2, 3, 4)) is waiting
