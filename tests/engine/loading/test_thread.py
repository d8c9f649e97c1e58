"""A thread loads while the one that asked for it goes on."""

from __future__ import annotations

import gc
import sys
import threading
import time
import weakref
from contextlib import suppress
from pathlib import Path

import mlx.core as mx
import pytest

from engine.loading.thread import nothing_is_read, on_thread, reading


def test_work_is_done_on_another_thread_while_this_one_looks_at_others() -> None:
    """What was evaluated there may be used here; MLX's streams are each thread's own."""
    looked, may_end = list[int](), threading.Event()

    def work() -> tuple[int, mx.array]:
        array = mx.arange(4) * 2
        mx.eval(array)
        assert may_end.wait(60)
        return threading.get_ident(), array

    def look() -> bool:
        looked.append(len(looked))
        if len(looked) == 5:
            may_end.set()
        return len(looked) < 3

    thread, array = on_thread(work, look)
    assert thread != threading.get_ident()
    assert mx.sum(array).item() == 12
    assert len(looked) >= 5


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lists a process's threads, MLX's too")
def test_many_loads_leave_no_more_threads_than_one() -> None:
    """MLX ends none of its own, of which each thread that has it compute has one."""
    threads = list[int]()
    for _ in range(8):
        on_thread(lambda: mx.eval(mx.arange(4) * 2), lambda: False)
        threads.append(sum(1 for _ in Path("/proc/self/task").iterdir()))
    assert threads[-1] <= threads[0]


def test_who_has_nothing_to_do_waits() -> None:
    looks = list[float]()

    def look() -> bool:
        looks.append(time.perf_counter())
        return False

    on_thread(lambda: time.sleep(0.2), look)
    assert len(looks) <= 200


@pytest.mark.parametrize("is_here", [True, False])
def test_what_either_raises_ends_it_once_nothing_is_loaded_any_more(*, is_here: bool) -> None:
    ended = list[bool]()

    def slow() -> None:
        time.sleep(0.05)
        ended.append(True)

    def broken() -> bool:
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        on_thread(slow if is_here else broken, broken if is_here else lambda: False)
    assert ended == [True] * is_here


def test_what_was_read_is_gone_as_soon_as_the_load_broke() -> None:
    """And not when Python looks for rings the next time: it may be a whole model."""
    read = list[weakref.ref[Array]]()

    def work() -> None:
        array = Array()
        read.append(weakref.ref(array))
        raise OSError("gone")

    gc.disable()
    try:
        with suppress(OSError):
            on_thread(work, lambda: False)
        assert read[0]() is None
    finally:
        gc.enable()


class Array:
    """Some of a model."""


def test_who_forks_waits_for_one_tensor_and_not_for_all() -> None:
    tensors, forks, begun = 0, list[int](), threading.Event()

    def read() -> None:
        nonlocal tensors
        with reading() as between:
            for _ in range(40):
                began = tensors
                begun.set()
                time.sleep(0.005)
                tensors += 1
                assert began + 1 == tensors, "nobody forks meanwhile"
                between()

    def fork() -> None:
        nonlocal tensors
        with nothing_is_read():
            tensors += 1
            time.sleep(0.01)
            tensors -= 1
            forks.append(tensors)

    def look() -> bool:
        if begun.wait(60) and len(forks) < 3:
            fork()
        return False

    on_thread(read, look)
    assert len(forks) == 3
    assert forks[-1] < 20
    assert tensors == 40
    fork()
