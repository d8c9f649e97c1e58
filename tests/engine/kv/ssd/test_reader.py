"""Files are read side by side, and what one of them lacks ends what is read behind it."""

from __future__ import annotations

import threading
from itertools import count
from types import SimpleNamespace

import pytest

from engine.kv.ssd import reader as ssd_reader
from engine.kv.ssd.reader import Job, SideBySide


def said(outcomes: list[bool], ran: list[int]) -> list[Job]:
    """A job for each outcome, which notes its number."""

    def job(number: int) -> Job:
        def run() -> bool:
            ran.append(number)
            return outcomes[number]

        return run

    return [job(number) for number in range(len(outcomes))]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("jobs", [0, 1, 2, 20])
def test_each_runs_once(threads: int, jobs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssd_reader, "THREADS", threads)
    ran: list[int] = []
    assert SideBySide().run(said([True] * jobs, ran)) == jobs
    assert sorted(ran) == list(range(jobs))


@pytest.mark.parametrize("threads", [1, 3])
def test_what_went_well_is_counted_up_to_what_did_not(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssd_reader, "THREADS", threads)
    ran: list[int] = []
    assert SideBySide().run(said([True, True, False, True, False], ran)) == 2
    if threads == 1:
        assert ran == [0, 1, 2]
    assert SideBySide().run(said([False] + [True] * 9, [])) == 0


@pytest.mark.parametrize("threads", [1, 3])
def test_none_is_begun_when_the_time_is_over_but_the_first(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssd_reader, "THREADS", threads)
    ran: list[int] = []
    assert SideBySide().run(said([True] * 9, ran), 0.0) == 1
    assert ran == [0]
    ran.clear()
    looks = count()
    monkeypatch.setattr(ssd_reader, "time", SimpleNamespace(perf_counter=lambda: next(looks)))
    assert 1 <= SideBySide().run(said([True] * 40, ran), 5.0) <= 5
    assert len(ran) == 5  # the first, and one for each look that is earlier than the fifth


def test_they_run_at_once_on_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssd_reader, "THREADS", 3)
    together, threads = threading.Barrier(3), set[int]()

    def job() -> bool:
        together.wait(60)
        threads.add(threading.get_ident())
        together.wait(60)
        return True

    assert SideBySide().run([job] * 3) == 3
    assert len(threads) == 3
    assert threading.get_ident() in threads


@pytest.mark.parametrize("on_caller", [True, False])
def test_what_breaks_is_raised_when_all_have_ended(on_caller: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssd_reader, "THREADS", 2)
    together, caller, ended = threading.Barrier(2), threading.current_thread(), list[bool]()
    has_broken = threading.Event()

    def job() -> bool:
        together.wait(60)
        if (threading.current_thread() is caller) == on_caller:
            has_broken.set()
            raise MemoryError("no room")
        assert has_broken.wait(60)
        ended.append(True)
        return True

    with pytest.raises(MemoryError, match="no room"):
        SideBySide().run(
            [job, job, *[lambda: True] * 2]
        )  # one more may begin before it is known to have broken
    assert ended == [True]


def test_the_threads_are_kept_from_read_to_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssd_reader, "THREADS", 2)
    readers, seen = SideBySide(), list[set[int]]()
    for _ in range(3):
        together, threads = threading.Barrier(2), set[int]()

        def job(together: threading.Barrier = together, threads: set[int] = threads) -> bool:
            threads.add(threading.get_ident())
            together.wait(60)
            return True

        assert readers.run([job, job]) == 2
        seen.append(threads)
    assert seen[0] == seen[1] == seen[2]


def test_what_is_done_meanwhile_holds_up_no_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssd_reader, "THREADS", 2)
    readers, may_end, ended = SideBySide(), threading.Event(), threading.Event()

    def slow() -> None:
        assert may_end.wait(60)
        ended.set()

    together = threading.Barrier(2)

    def job() -> bool:
        together.wait(60)
        return True

    readers.later(slow)
    assert readers.run([job, job]) == 2  # on two threads still
    for _ in range(3):
        readers.later(lambda: may_end.wait(60))
    assert readers.run([lambda: True] * 2) == 2  # by the caller alone: no thread is left
    may_end.set()
    assert ended.wait(60)


def test_closed_ones_end_their_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssd_reader, "THREADS", 2)
    before, readers, done = set(threading.enumerate()), SideBySide(), threading.Event()
    readers.later(done.set)
    assert done.wait(60)
    own = set(threading.enumerate()) - before
    assert own
    readers.close()
    for thread in own:
        thread.join(60)
        assert not thread.is_alive()


def test_what_waits_when_they_are_closed_is_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssd_reader, "THREADS", 1)
    before, readers, ran = set(threading.enumerate()), SideBySide(), list[int]()
    has_begun, may_end = threading.Event(), threading.Event()

    def slow() -> None:
        has_begun.set()
        assert may_end.wait(60)

    readers.later(slow)
    readers.later(lambda: ran.append(1))
    assert has_begun.wait(60)
    own = set(threading.enumerate()) - before
    readers.close()
    may_end.set()
    for thread in own:
        thread.join(60)
    assert not ran
