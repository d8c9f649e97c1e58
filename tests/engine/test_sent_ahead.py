"""A step that was sent ahead for an answer that ends is nobody's: who comes next has nothing of it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from engine.pacing.chunking import ChunkSizer
from engine.requests.request import Sequence
from engine.runner import Runner
from engine.steps.batch import Sent
from tests.engine.oracle import checked_model
from tests.engine.queued import Queue, ids
from tests.engine.watched import guess_always, warm_always


@pytest.fixture
def queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Queue:
    """An answer is on its way, and its next step in flight, as with kernels."""
    monkeypatch.setattr(Runner, "has_aside", False)
    monkeypatch.setattr(Runner, "looks_ahead", True)
    queue = Queue(tmp_path, pages=40)
    queue.add(queue.request("first", ids(20), 30))
    queue.work_until_all_write()
    while queue.serving._sent is None:
        queue.work(1)
    return queue


def stop_in_time(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its next token is an end token; the step behind it has been sent by then."""
    accept = Sequence.accept
    monkeypatch.setattr(Sequence, "accept", lambda self, token, is_end: accept(self, token, True))
    queue.work()
    monkeypatch.setattr(Sequence, "accept", accept)


@pytest.mark.parametrize("is_cancelled", [False, True])
def test_a_pause_behind_it_is_not_what_it_took(
    is_cancelled: bool, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    took, decoded, clock = list[float](), ChunkSizer.decoded, time.perf_counter

    def note(self: ChunkSizer, answers: int, seconds: float) -> None:
        took.append(seconds)
        decoded(self, answers, seconds)

    monkeypatch.setattr(ChunkSizer, "decoded", note)
    queue.serving.cancel("first") if is_cancelled else stop_in_time(queue, monkeypatch)
    monkeypatch.setattr(time, "perf_counter", lambda: clock() + 1000)
    queue.add(queue.request("second", ids(20, 5), 30))
    queue.work()
    assert took
    assert max(took) < 900
    queue.close()


@pytest.mark.parametrize("is_cancelled", [False, True])
def test_where_it_breaks_the_next_request_is_not_to_blame(
    is_cancelled: bool, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, first = Sent.read, queue.asked["first"].sequences[0]

    def breaks(self: Sent) -> tuple[list[int], list[float]]:
        if all(sequence.reason for sequence in self.everybody):
            raise RuntimeError("the device was lost")
        return read(self)

    monkeypatch.setattr(Sent, "read", breaks)
    queue.serving.cancel("first") if is_cancelled else stop_in_time(queue, monkeypatch)
    assert first.reason == ("cancelled" if is_cancelled else "stop")
    assert queue.serving.model.memory.cached_pages == 0, "what a lost device left is not to be trusted"
    queue.add(queue.request("second", ids(20, 5), 30))
    queue.work()
    assert [end.id for end in queue.ends] == ["first", "second"]
    queue.close()


def test_who_waits_meanwhile_is_not_to_blame_either(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    """It begins while the step is in flight that breaks."""
    read, first = Sent.read, queue.asked["first"].sequences[0]

    def breaks(self: Sent) -> tuple[list[int], list[float]]:
        if first in self.everybody:
            raise RuntimeError("the device was lost")
        return read(self)

    monkeypatch.setattr(Sent, "read", breaks)
    queue.add(queue.request("second", ids(20, 5), 30))
    queue.serving.cancel("first")
    queue.work()
    assert [end.id for end in queue.ends] == ["first", "second"]
    queue.close()


def test_pages_stay_that_a_window_sees_where_none_of_a_draft_in_flight_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that gave way with a draft goes on while the step of another, that was cancelled, is in flight."""
    guess_always(monkeypatch)
    warm_always(monkeypatch)
    monkeypatch.setattr(Runner, "looks_ahead", True)
    model = checked_model(tmp_path, "window")
    for arrives in range(5, 16):
        folder = tmp_path / f"{arrives}"
        queue = Queue(folder, pages=10, draft=True, model=model, page_size=4, prefill_chunk=16)
        queue.add(queue.request("drafted", ids(26, 1), 60, chat="a"))
        queue.work(arrives)
        queue.add(queue.request("first", ids(24, 2), 20, "window"))
        while "drafted" in queue.running:
            queue.work(1)
        queue.work(2)
        queue.serving.cancel("first")
        queue.work()
        assert [end.id for end in queue.ends] == ["first", "drafted"]
        queue.close()
