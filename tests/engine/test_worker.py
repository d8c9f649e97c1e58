"""A thread of the engine's that outlasts what it was given first."""

from __future__ import annotations

import gc
import threading
import weakref
from threading import Event

import pytest

from engine.worker import Worker, end_workers


class Held:
    """What work has in its hands."""


def test_it_does_all_on_one_thread_in_order_and_another_one_what_comes_behind_its_end() -> None:
    worker, done, may_go_on = Worker("mlxr-test", lambda: done.append(-1)), list[int](), Event()
    worker.end()  # before it was given anything
    first = worker.submit(lambda: may_go_on.wait(60) and threading.current_thread())
    several = [worker.submit(lambda number=number: done.append(number)) for number in range(5)]
    second = worker.submit(threading.current_thread)
    end_workers()
    may_go_on.set()
    thread = first.result(60)
    assert isinstance(thread, threading.Thread)
    assert (thread, thread.name, thread.daemon) == (second.result(60), "mlxr-test", True)
    thread.join(60)
    assert not thread.is_alive()
    assert all(one.done() for one in several)
    assert done == [-1, 0, 1, 2, 3, 4]
    third = worker.submit(threading.current_thread).result(60)
    assert third is not thread
    worker.end()
    third.join(60)
    assert not third.is_alive()


def test_where_there_is_no_thread_for_it_that_is_said_and_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    worker = Worker("mlxr-test")
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", full)
        for _ in range(2):
            with pytest.raises(RuntimeError, match="can't start"):
                worker.submit(lambda: 1)
    assert worker.submit(lambda: 2).result(60) == 2
    worker.end()


@pytest.mark.parametrize("breaks", [False, True])
def test_nothing_of_what_was_done_is_kept(*, breaks: bool) -> None:
    """It may be a model's weights, which would be in memory until Python looks for rings."""
    worker, kept = Worker("mlxr-test"), list[weakref.ref[Held]]()

    def work() -> Held:
        held = Held()
        kept.append(weakref.ref(held))
        if breaks:
            raise OSError("gone")
        return held

    def ask() -> None:
        future = worker.submit(work)
        try:
            future.result(60)
        except OSError:
            assert breaks
        finally:
            del future

    gc.disable()
    try:
        ask()
        worker.submit(lambda: None).result(60)
        assert kept[0]() is None
    finally:
        gc.enable()
        worker.end()
