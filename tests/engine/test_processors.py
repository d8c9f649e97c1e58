"""Threads by their name in the system: kept apart while a prompt is read beside answers."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import get_native_id

import pytest

from engine.processors import kept_apart, name_thread

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux keeps threads to processors")


def named(name: str) -> int:
    name_thread(name)
    return get_native_id()


def test_threads_of_names_and_those_they_start_are_kept_apart_and_let_go(two: set[int]) -> None:
    with (
        ThreadPoolExecutor(1) as first,
        ThreadPoolExecutor(1) as second,
        ThreadPoolExecutor(1) as third,
        ThreadPoolExecutor(1) as free,
    ):
        ids = [first.submit(named, "kept-here").result(), first.submit(started, second).result()]
        ids += [third.submit(named, "kept-there").result(), free.submit(named, "not-kept").result()]
        assert Path(f"/proc/self/task/{ids[1]}/comm").read_text() == "kept-here\n"
        with kept_apart(["kept-here", "nobody"], ["kept-there"]):
            assert [os.sched_getaffinity(id_) for id_ in ids] == [{min(two)}, {min(two)}, {max(two)}, two]
            assert os.sched_getaffinity(0) == two
        assert [os.sched_getaffinity(id_) for id_ in ids] == [two] * 4


def started(thread: ThreadPoolExecutor) -> int:
    """One that this thread starts."""
    return thread.submit(get_native_id).result()


def test_they_are_let_go_when_something_breaks(two: set[int]) -> None:
    with ThreadPoolExecutor(1) as thread:
        id_ = thread.submit(named, "kept-here").result()
        with pytest.raises(ValueError, match="broken"), kept_apart(["kept-here"], []):
            raise ValueError("broken")
        assert os.sched_getaffinity(id_) == two


@pytest.mark.parametrize("processors", [{0}, {0, 1, 2}])
def test_of_one_processor_and_of_more_than_two_nobody_is_kept_apart(
    processors: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen, name = list[int](), f"kept-{len(processors)}"  # the other case's thread may still be ending
    with ThreadPoolExecutor(1) as thread:
        id_ = thread.submit(named, name).result()
        monkeypatch.setattr(os, "sched_getaffinity", lambda _id: processors)
        monkeypatch.setattr(os, "sched_setaffinity", lambda id_, _processors: chosen.append(id_))
        with kept_apart([name], []):
            assert chosen == []
        monkeypatch.setattr(os, "sched_getaffinity", lambda _id: {0, 1})
        with kept_apart([name], []):
            assert chosen == [id_]  # of two it is
