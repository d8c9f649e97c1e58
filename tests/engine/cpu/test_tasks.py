"""Tasks that wait for each other: each done once behind what it needs, whoever is slow."""

from __future__ import annotations

import gc
import random
import sys
import threading
import weakref
from functools import partial
from threading import Event, current_thread, get_native_id, main_thread

import pytest

from engine.cpu.crew import Crew
from engine.cpu.gate import Gate
from engine.cpu.tasks import Task, Tasks


class Thing:
    """That a task comes to."""


@pytest.mark.parametrize("size", [1, 2, 4])
def test_each_is_given_what_it_asks_for_in_any_order_that_may_be(size: int) -> None:
    """Random graphs, whose numbers hang on everything before."""
    for seed in range(30):
        rng, tasks = random.Random(seed), Tasks(Crew(size))
        made: list[Task[int]] = [tasks.given(7, 0)]
        expected, done = [7], set[int]()

        def compute(*given: int, number: int, after: tuple[int, ...], done: set[int] = done) -> int:
            assert done.issuperset(after)
            done.add(number)
            return sum(given) % 1009 + number

        for number in range(1, 60):
            inputs = rng.sample(range(number), rng.randint(0, min(3, number)))
            after = rng.sample(range(1, number), rng.randint(0, min(3, number - 1)))

            def task(*given: int, number: int = number, after: tuple[int, ...] = tuple(after)) -> int:
                return compute(*given, number=number, after=after)

            made.append(
                tasks.add(
                    task,
                    [made[at] for at in inputs],
                    rng.randint(0, 5),
                    after=[made[at] for at in after],
                    is_first_threads=rng.random() < 0.1,
                )
            )
            expected.append(sum(expected[at] for at in inputs) % 1009 + number)
        last = tasks.add(lambda *given: given, made, 0)
        told = list[object]()
        tasks.add(told.extend, [last], 0)
        tasks.run()
        assert told == expected
        assert all(task.is_done for task in made)


def test_several_threads_are_at_it_at_the_same_time() -> None:
    tasks, all_there, begun, seen = Tasks(Crew(3)), threading.Barrier(3), set[int](), set[int]()

    def meet(place: int) -> None:
        if place not in begun:  # else somebody is at it who is through in a moment
            begun.add(place)
            seen.add(get_native_id())
            all_there.wait(60)

    for place in range(3):
        tasks.add(partial(meet, place), [], place)
    tasks.run()
    assert len(seen) == 3


def test_who_is_slow_holds_up_nobody_but_who_needs_it_and_changes_nothing_later() -> None:
    crew, at_it, may_go_on, is_through = Crew(2), Event(), Event(), Event()
    tasks, order = Tasks(crew), list[str]()

    def slow() -> str:
        if current_thread() is main_thread():
            order.append("again")
            return "first's"
        at_it.set()
        may_go_on.wait(60)
        is_through.set()
        return "helper's"

    def other(name: str) -> None:
        at_it.wait(60)
        order.append(name)

    tasks.add(lambda: other("a"), [], 0)
    last = tasks.add(slow, [], 9)
    then = tasks.add(lambda: other("b"), [], 0)
    tasks.add(lambda: other("behind b"), [], 0, after=[then])
    tasks.add(lambda text: order.append(text), [last], 0)
    tasks.run()
    assert order == ["a", "b", "behind b", "again", "first's"]
    may_go_on.set()
    assert is_through.wait(60)
    crew.start()  # its thread is at rest behind it
    assert order[-1] == "first's"


def test_what_nobody_needs_any_more_is_forgotten() -> None:
    tasks, alive = Tasks(Crew(1)), list[int]()
    seen = list[weakref.ref[Thing]]()

    def make(*_before: Thing) -> Thing:
        thing = Thing()
        seen.append(weakref.ref(thing))
        gc.collect()
        alive.append(sum(each() is not None for each in seen))
        return thing

    task = tasks.add(make, [], 0)
    for _ in range(20):
        task = tasks.add(make, [task], 0)
    tasks.run()
    assert max(alive) <= 2


def test_what_a_task_raises_is_raised_where_it_was_asked_for() -> None:
    def breaks() -> None:
        raise MemoryError("no memory for a task")

    tasks = Tasks(Crew(2))
    behind = list[int]()
    tasks.add(lambda _: behind.append(1), [tasks.add(breaks, [], 0)], 0)
    with pytest.raises(MemoryError, match="no memory for a task"):
        tasks.run()
    assert not behind


def test_what_broke_for_a_helper_alone_is_computed_again() -> None:
    tasks, at_it, told = Tasks(Crew(2)), Event(), list[str]()

    def breaks() -> str:
        if current_thread() is main_thread():
            return "done"
        at_it.set()
        raise MemoryError("no memory for a helper")

    tasks.add(lambda: at_it.wait(60), [], 0)
    last = tasks.add(breaks, [], 1)
    tasks.add(lambda text: told.append(text), [last], 0)
    tasks.run()
    assert told == ["done"]


def test_what_is_the_first_threads_runs_there_and_once() -> None:
    tasks, where = Tasks(Crew(3)), list[bool]()
    for place in range(50):
        tasks.add(lambda: where.append(current_thread() is main_thread()), [], place, is_first_threads=True)
        tasks.add(lambda: None, [], place)
    tasks.run()
    assert where == [True] * 50


@pytest.mark.skipif(sys.platform != "linux", reason="gates are Linux's")
def test_who_helps_begins_with_the_last_tokens_and_not_while_the_gate_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("engine.cpu.crew._HELD", 60.0)
    gate, helped = Gate(), Event()
    crew = Crew(2, gate)
    tasks, by = Tasks(crew), dict[int, bool]()

    def compute(place: int) -> None:
        is_first = current_thread() is main_thread()
        by[place] = is_first
        if not is_first:
            helped.set()
        elif place == 0:
            assert not helped.wait(0.1)
            gate.open()
        elif place == 1:
            helped.wait(60)

    gate.close()
    for place in range(5):
        tasks.add(lambda place=place: compute(place), [], place)
    tasks.run()
    assert by[0]
    assert by[1]
    assert not by[4]
