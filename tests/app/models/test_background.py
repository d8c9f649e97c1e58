"""Jobs run one after the other on a thread of their own; what they return, or why they failed, comes back."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from queue import SimpleQueue

import pytest

from app.errors import AppError
from app.models.background import Background


class Desk:
    """A caller's thread: what is posted to it runs when it is asked to."""

    def __init__(self) -> None:
        self.calls: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self.said: list[object] = []
        self.background = Background("a test's", self.calls.put)

    def ask(self, work: Callable[[], object]) -> None:
        self.background.ask(work, self.said.append, lambda words: self.said.append(f"failed: {words}"))

    def run(self, count: int) -> list[object]:
        for _ in range(count):
            self.calls.get(timeout=60)()
        return self.said


def test_answers_come_back_in_order_on_the_callers_thread() -> None:
    desk = Desk()
    threads: list[int] = []
    assert not desk.background.is_running
    for number in range(3):
        desk.ask(lambda number=number: (threads.append(threading.get_ident()), number)[1])
    assert desk.run(3) == [0, 1, 2]
    assert len(set(threads)) == 1
    assert threads[0] != threading.get_ident()
    assert desk.background.close(60)
    assert not desk.background.is_running


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (AppError("the disk is full"), "failed: the disk is full"),
        (sqlite3.OperationalError("locked"), "failed: a database of MLXR cannot be used (locked)"),
        (ValueError("odd"), "failed: MLXR made a mistake (ValueError('odd'))"),
    ],
)
def test_a_failure_is_a_line_and_the_next_job_runs(error: Exception, words: str) -> None:
    desk = Desk()

    def fail() -> None:
        raise error

    desk.ask(fail)
    desk.ask(lambda: "next")
    told = desk.run(2)
    assert str(told[0]).startswith(words)
    assert told[1] == "next"
    assert desk.background.close(60)


def test_what_hangs_does_not_hold_up_what_is_asked_of_a_free_one() -> None:
    desk = Desk()
    first, go_on = desk.background, threading.Event()
    assert first.free() is first
    desk.ask(lambda: go_on.wait(60))
    desk.background = first.free()
    assert desk.background is not first
    desk.ask(lambda: "at once")
    assert desk.run(1) == ["at once"]
    go_on.set()
    assert desk.run(1) == ["at once", True]
    first._thread.join(60)
    assert not first.is_running
    assert desk.background.close(60)


def test_one_that_was_never_used_ends_at_once() -> None:
    assert Desk().background.close(0)
