"""Pieces of work that wait for each other, and threads that compute those that wait for nothing more.

No thread waits for all pieces of one operation before the next begins: a piece needs what it reads, no more.
So who helps may be slow, as one is whose processor is mostly somebody else's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from threading import Condition
from typing import Any, Generic, NoReturn, TypeVar

from engine.cpu.crew import Crew

Result = TypeVar("Result")


class Task(Generic[Result]):
    """A piece of work.

    Attributes:
        number: tasks were made in this order.
        place: of the tokens that it is of; later ones are needed by fewer.
        is_done: whether its result is there, or was.
    """

    def __init__(
        self,
        number: int,
        place: int,
        compute: Callable[..., Result],
        inputs: Sequence[Task[Any]],
        after: Sequence[Task[Any]],
        *,
        is_first_threads: bool,
    ) -> None:
        """See Tasks.add."""
        self.number, self.place, self.is_done = number, place, False
        self.compute, self.inputs, self.is_first_threads = compute, inputs, is_first_threads
        self.then, self.uses = list[Task[Any]](), 0
        self.missing = 0
        self.result: Result | None = None
        for before in {*inputs, *after}:
            if not before.is_done:
                before.then.append(self)
                self.missing += 1
        for before in inputs:
            before.uses += 1


class Tasks:
    """Tasks, and the crew that computes them."""

    def __init__(self, crew: Crew) -> None:
        self._crew, self._changed = crew, Condition()
        self._ready, self._begun = list[Task[Any]](), dict[Task[Any], None]()
        self._made = self._left = 0
        self._is_over = False

    def given(self, result: Result, place: int) -> Task[Result]:
        """A task that is done: what is given is forgotten behind its last use, too."""
        task = Task[Result](self._made, place, _never, (), (), is_first_threads=False)
        task.result, task.is_done = result, True
        self._made += 1
        return task

    def add(
        self,
        compute: Callable[..., Result],
        inputs: Sequence[Task[Any]],
        place: int,
        *,
        after: Sequence[Task[Any]] = (),
        is_first_threads: bool = False,
    ) -> Task[Result]:
        """A task for `run`.

        Args:
            compute: is given what `inputs` have come to, which is forgotten behind its last use. It runs on
                any of the threads, may run twice at the same time, and be at it still behind the end.
            place: of the tokens that it is of.
            after: what else has to be done before.
            is_first_threads: whether `compute` runs on the thread that asks, and once.
        """
        task = Task(self._made, place, compute, inputs, after, is_first_threads=is_first_threads)
        self._made, self._left = self._made + 1, self._left + 1
        if not task.missing:
            self._ready.append(task)
        return task

    def run(self) -> None:
        """All of them; what a task raises on the thread that asks is raised."""
        try:
            self._crew.together(self._first, self._help)
        finally:
            with self._changed:
                self._is_over = True
                self._changed.notify_all()

    def _first(self) -> None:
        spent, count = 0.0, 0
        while True:
            with self._changed:
                task = self._next()
                if task is None and self._left:  # who helps is at what all others wait for
                    self._changed.wait_for(lambda: self._ready, spent / max(1, count) / 2)
                    task = self._next() or min(self._begun, key=lambda begun: begun.number, default=None)
                if task is None:
                    return
                given = [each.result for each in task.inputs]
            began = time.perf_counter()
            result = task.compute(*given)
            spent, count = spent + time.perf_counter() - began, count + 1
            self._done(task, result)

    def _next(self) -> Task[Any] | None:
        if not self._ready:
            return None
        task = min(self._ready, key=lambda ready: ready.number)
        self._take(task)
        return task

    def _take(self, task: Task[Any]) -> None:
        self._ready.remove(task)
        self._begun[task] = None

    def _help(self) -> None:
        while True:
            self._crew.give_way()
            with self._changed:
                while not (open_ := [task for task in self._ready if not task.is_first_threads]):
                    if self._is_over or not self._left:
                        return
                    self._changed.wait()
                task = max(open_, key=lambda ready: (ready.place, -ready.number))
                self._take(task)
                given = [each.result for each in task.inputs]
            self._done(task, task.compute(*given))

    def _done(self, task: Task[Any], result: object) -> None:
        with self._changed:
            if task.is_done:  # somebody else was quicker
                return
            self._begun.pop(task)
            task.is_done, task.result = True, result if task.uses else None
            self._left -= 1
            for each in task.then:
                each.missing -= 1
                if not each.missing:
                    self._ready.append(each)
            for each in task.inputs:
                each.uses -= 1
                if not each.uses:
                    each.result = None
            self._changed.notify_all()


def _never() -> NoReturn:
    raise AssertionError("this task was done from the beginning")
