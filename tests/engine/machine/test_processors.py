"""Threads by their name in the system: kept to processors while a prompt is read beside answers."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from threading import get_native_id

import pytest

from engine.machine.processors import Halves, apart, halves, keep, name_thread, step_aside

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux keeps threads to processors")


def named(name: str) -> int:
    name_thread(name)
    return get_native_id()


def test_threads_of_a_name_and_those_they_start_are_kept_and_let_go(two: set[int]) -> None:
    with ThreadPoolExecutor(1) as first, ThreadPoolExecutor(1) as second, ThreadPoolExecutor(1) as free:
        ids = [first.submit(named, "kept-here").result(), first.submit(started, second).result()]
        ids += [free.submit(named, "not-kept").result()]
        assert Path(f"/proc/self/task/{ids[1]}/comm").read_text() == "kept-here\n"
        keep("kept-here", {min(two)})
        assert [os.sched_getaffinity(id_) for id_ in ids] == [{min(two)}, {min(two)}, two]
        assert os.sched_getaffinity(0) == two
        keep("kept-here", two)
        assert [os.sched_getaffinity(id_) for id_ in ids] == [two] * 3


def test_one_that_is_started_while_they_are_looked_for_is_kept_too(
    two: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    ids, kept = list[int](), os.sched_setaffinity
    with ThreadPoolExecutor(1) as first, ThreadPoolExecutor(1) as late:

        def starts_another(thread: int, processors: set[int]) -> None:
            """Right before it is kept itself, behind the look at all that there are."""
            if len(ids) == 1:
                ids.append(first.submit(started, late).result())
            kept(thread, processors)

        ids.append(first.submit(named, "kept-late").result())
        monkeypatch.setattr(os, "sched_setaffinity", starts_another)
        keep("kept-late", {min(two)})
        assert [os.sched_getaffinity(id_) for id_ in ids] == [{min(two)}] * 2


def test_they_are_kept_until_nobody_wants_that_any_more(two: set[int]) -> None:
    """A model's last process may end while another's first computes a prompt."""
    both = Halves(frozenset([min(two)]), frozenset([max(two)]), frozenset(two))
    with ThreadPoolExecutor(1) as thread, ExitStack() as others:
        kept = thread.submit(named, "kept-twice").result()
        with apart("kept-twice", both):
            others.enter_context(apart("kept-twice", both))
        assert os.sched_getaffinity(kept) == {min(two)}
        others.close()
        assert os.sched_getaffinity(kept) == two


def started(thread: ThreadPoolExecutor) -> int:
    """One that this thread starts."""
    return thread.submit(get_native_id).result()


@pytest.mark.parametrize(
    ("processors", "answers", "prompt"),
    [({4, 7}, {4}, {7}), ({0}, {0}, {0}), ({0, 1, 2}, {0, 1, 2}, {0, 1, 2})],
)
def test_only_of_two_processors_each_has_one(
    processors: set[int], answers: set[int], prompt: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _id: processors)
    found = halves()
    assert (found.answers, found.prompt, found.both) == (answers, prompt, processors)
    assert found.are_apart == (len(processors) == 2)


def test_who_works_beside_answers_is_nicer_and_of_two_processors_on_the_other(two: set[int]) -> None:
    usual = os.getpriority(os.PRIO_PROCESS, 0)
    with ThreadPoolExecutor(1, "", step_aside, ("aside-here", 3)) as aside, ThreadPoolExecutor(1) as late:
        for thread in (aside.submit(get_native_id).result(), aside.submit(started, late).result()):
            assert Path(f"/proc/self/task/{thread}/comm").read_text() == "aside-here\n"
            assert os.sched_getaffinity(thread) == {max(two)}
            assert os.getpriority(os.PRIO_PROCESS, thread) == usual + 3
    assert os.sched_getaffinity(0) == two
