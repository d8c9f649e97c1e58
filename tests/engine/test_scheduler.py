"""The queue and the running set against a plain model: order, who gives way, and that nobody starves."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from engine.commands import Lane
from engine.scheduler import HEAD_START, MOST_READING, Scheduler, rank_of, turn_of

MOST = 3


@dataclass(eq=False)
class Item:
    rank: float
    pending: int = 1
    reading: float = 0.0
    lane: Lane = "api"

    @property
    def turn(self) -> float:
        return turn_of(self.rank, self.reading, self.lane)


def test_the_window_goes_first_and_a_program_that_has_waited_long_before_it() -> None:
    assert rank_of("window", 100.0) < rank_of("api", 100.0 - HEAD_START + 0.1)
    assert rank_of("api", 100.0 - HEAD_START - 0.1) < rank_of("window", 100.0)


@pytest.mark.parametrize(
    ("first", "others"),
    [
        (Item(rank_of("api", 0.0)), "window"),  # a program behind a busy window
        (Item(rank_of("api", 0.0), pending=9000, reading=1e6), "api"),  # a long prompt behind short ones
    ],
)
def test_nobody_starves(first: Item, others: Lane) -> None:
    scheduler = Scheduler[Item](most=1)
    scheduler.add(first)
    for second in range(1, 100):
        scheduler.add(Item(rank_of(others, float(second)), lane=others))
        item = scheduler.next
        assert item is not None
        scheduler.start(item)
        scheduler.remove(item)
        if item is first:
            assert second <= HEAD_START + MOST_READING + 1
            return
    raise AssertionError("it never ran")


def test_a_better_ranked_prompt_is_computed_before_the_one_that_began() -> None:
    scheduler = Scheduler[Item]()
    slow, quick = Item(5.0, pending=9000), Item(1.0, pending=20)
    scheduler.add(slow)
    scheduler.start(slow)
    scheduler.add(Item(7.0, pending=3))
    assert scheduler.next is None  # it waits until the prompt before it is computed
    scheduler.add(quick)
    assert scheduler.next is quick
    scheduler.start(quick)
    assert scheduler.filling is quick
    quick.pending = 1
    assert scheduler.filling is slow


def test_a_short_prompt_is_read_before_the_long_one_that_came_first() -> None:
    scheduler = Scheduler[Item]()
    book, question = Item(0.0, pending=9000, reading=20.0), Item(5.0, pending=20, reading=0.1)
    scheduler.add(book)
    scheduler.start(book)
    scheduler.add(question)
    assert scheduler.next is question
    scheduler.start(question)
    assert scheduler.filling is question
    assert scheduler.running == (book, question)
    assert scheduler.victim(book) is question  # who came first keeps its pages
    assert scheduler.victim(question) is None


def test_the_window_s_longest_prompt_is_read_before_what_programs_have_queued() -> None:
    scheduler = Scheduler[Item](most=1)
    book = Item(rank_of("window", 100.0), pending=9000, reading=1e6, lane="window")
    scheduler.add(Item(rank_of("api", 100.0 - HEAD_START + 0.1)))
    scheduler.add(book)
    assert scheduler.next is book


def test_a_prompt_that_is_nearly_read_is_not_interrupted() -> None:
    scheduler = Scheduler[Item]()
    book = Item(0.0, pending=9000, reading=20.0)
    scheduler.add(book)
    scheduler.start(book)
    book.reading = 0.5
    scheduler.add(Item(5.0, pending=20, reading=0.1))
    assert scheduler.next is None


def test_without_a_place_the_first_that_can_have_one_starts() -> None:
    scheduler = Scheduler[Item](most=1)
    running, book, question = Item(3.0), Item(0.0, reading=20.0), Item(5.0)
    scheduler.add(running)
    scheduler.start(running)
    scheduler.add(book)
    scheduler.add(question)
    assert scheduler.waiting == (question, book)
    assert scheduler.next is book


class Comparison(RuleBasedStateMachine):
    """Every item is waiting, sorted by turn, or running, by rank; of equals who came first is first.

    While a prompt is read only those begin whose turn is before its.
    """

    def __init__(self) -> None:
        super().__init__()
        self.scheduler = Scheduler[Item](MOST)
        self.waiting: list[Item] = []
        self.running: list[Item] = []

    @rule(rank=st.integers(0, 5), reading=st.integers(0, 4), pending=st.integers(1, 3))
    def arrives(self, rank: int, reading: int, pending: int) -> None:
        item = Item(float(rank), pending, float(reading))
        self.scheduler.add(item)
        self.waits(item)

    def waits(self, item: Item) -> None:
        self.waiting.append(item)
        self.waiting.sort(key=lambda waiting: waiting.turn)

    @rule()
    def starts(self) -> None:
        first = self.scheduler.next
        has_place = len(self.running) < MOST
        assert self.scheduler.has_place == has_place
        due = [item for item in self.waiting if has_place or item.rank < self.running[-1].rank]
        being_read = [item.turn for item in self.running if item.pending > 1]
        if due and being_read and due[0].turn >= min(being_read):
            due = []
        assert first is (due[0] if due else None)
        if first is not None:
            if not has_place:
                self.scheduler.give_way(worst := self.running.pop())
                self.waits(worst)
            self.scheduler.start(first)
            self.waiting.remove(first)
            self.running.append(first)
            self.running.sort(key=lambda running: running.rank)

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def joins(self, data: st.DataObject) -> None:
        """Another answer to the same prompt, which is read."""
        item = Item(data.draw(st.sampled_from(self.running)).rank)
        self.scheduler.join(item)
        self.running.append(item)
        self.running.sort(key=lambda running: running.rank)

    @precondition(lambda self: self.scheduler.filling)
    @rule()
    def reads(self) -> None:
        filling = self.scheduler.filling
        assert filling is not None
        filling.pending -= 1

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def asks_for_pages(self, data: st.DataObject) -> None:
        asking = data.draw(st.sampled_from(self.running))
        victim = self.scheduler.victim(asking)
        if victim is None:
            assert asking is self.running[-1]
            return
        assert victim is self.running[-1]
        assert victim.rank >= asking.rank
        assert victim is not self.running[0]
        self.scheduler.give_way(victim)
        self.running.remove(victim)
        self.waits(victim)

    @precondition(lambda self: self.running or self.waiting)
    @rule(data=st.data())
    def ends(self, data: st.DataObject) -> None:
        item = data.draw(st.sampled_from([*self.running, *self.waiting]))
        self.scheduler.remove(item)
        (self.running if item in self.running else self.waiting).remove(item)

    @invariant()
    def agree(self) -> None:
        assert list(self.scheduler.running) == self.running
        assert list(self.scheduler.waiting) == self.waiting
        assert list(self.scheduler) == [*self.running, *self.waiting]
        read = [item for item in self.running if item.pending > 1]
        assert self.scheduler.filling is min(read, key=lambda item: item.turn, default=None)


TestComparison = Comparison.TestCase
TestComparison.settings = settings(max_examples=60, stateful_step_count=40)
