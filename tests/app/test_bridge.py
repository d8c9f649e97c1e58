"""From other threads to the GUI: order, one wake-up a frame, and no more than a share of it."""

from __future__ import annotations

import threading
import time

import pytest
from PySide6.QtCore import QThread
from pytestqt.qtbot import QtBot

from app.bridge import FrameQueue


@pytest.fixture
def queue(qtbot: QtBot) -> FrameQueue:
    return FrameQueue()


def from_threads(queue: FrameQueue, threads: int, calls: int, made: list[tuple[int, int]]) -> None:
    """Post `calls` calls from each of so many threads, which note (thread, call) where they run."""

    def post(thread: int) -> None:
        for call in range(calls):
            queue.post(lambda call=call: made.append((thread, call)))

    workers = [threading.Thread(target=post, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def test_every_call_runs_once_and_each_threads_in_order(qtbot: QtBot, queue: FrameQueue) -> None:
    made: list[tuple[int, int]] = []
    from_threads(queue, threads=4, calls=500, made=made)
    qtbot.waitUntil(lambda: len(made) == 2000)
    for thread in range(4):
        assert [call for number, call in made if number == thread] == list(range(500))


def test_calls_run_on_the_gui_thread(qtbot: QtBot, queue: FrameQueue) -> None:
    where: list[QThread] = []
    worker = threading.Thread(target=lambda: queue.post(lambda: where.append(QThread.currentThread())))
    worker.start()
    worker.join()
    qtbot.waitUntil(lambda: bool(where))
    assert where == [queue.thread()]


def test_a_thousand_posts_are_one_batch(
    qtbot: QtBot, queue: FrameQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.bridge.BUDGET_SECONDS", 10)  # however slow this machine is
    batches: list[int] = []
    made: list[tuple[int, int]] = []
    queue.drained.connect(lambda: batches.append(len(made)))
    from_threads(queue, threads=1, calls=1000, made=made)
    qtbot.waitUntil(lambda: len(made) == 1000)
    assert batches == [1000]


def test_slow_calls_are_spread_over_frames(qtbot: QtBot, queue: FrameQueue) -> None:
    batches: list[float] = []
    made: list[float] = []

    def slow() -> None:
        until = time.monotonic() + 0.004
        while time.monotonic() < until:
            pass
        made.append(time.monotonic())

    queue.drained.connect(lambda: batches.append(time.monotonic()))
    for _ in range(8):
        queue.post(slow)
    qtbot.waitUntil(lambda: len(made) == 8)
    assert len(batches) >= 3


def test_a_call_that_raises_does_not_hold_up_the_others(qtbot: QtBot, queue: FrameQueue) -> None:
    made: list[int] = []
    with qtbot.captureExceptions() as raised:
        queue.post(lambda: [][0])
        queue.post(lambda: made.append(1))
        qtbot.waitUntil(lambda: made == [1])
    assert [kind for kind, _, _ in raised] == [IndexError]


def test_a_call_may_post_another(qtbot: QtBot, queue: FrameQueue) -> None:
    made: list[str] = []
    queue.post(lambda: queue.post(lambda: made.append("second")))
    qtbot.waitUntil(lambda: made == ["second"])


def test_after_close_nothing_runs(qtbot: QtBot, queue: FrameQueue) -> None:
    made: list[int] = []
    queue.post(lambda: made.append(1))
    queue.close()
    queue.post(lambda: made.append(2))
    with qtbot.assertNotEmitted(queue.drained, wait=50):
        pass
    assert made == []
