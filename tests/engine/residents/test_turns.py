"""Whose turn it is among models that are busy, and what each is told of the others."""

from __future__ import annotations

from typing import cast

from engine.commands import LoadModel
from engine.residents.elsewhere import NOBODY, Elsewhere
from engine.residents.resident import Resident
from engine.residents.turns import Turns
from engine.serving import Serving


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Worker:
    """In the place of a Serving, and of its Neighbour: steps take `seconds`, and it has so many `answers`."""

    def __init__(self, clock: Clock, seconds: float, answers: int = 0) -> None:
        self.neighbour = self
        self.seconds, self.answers, self.answer_seconds = seconds, answers, seconds
        self.told, self.was_held_up = list[Elsewhere](), False
        self._clock = clock

    def work(self, elsewhere: Elsewhere) -> None:
        self.told.append(elsewhere)
        self._clock.now += self.seconds

    def held_up(self) -> None:
        self.was_held_up = True


class Table:
    """Models that take turns."""

    def __init__(self, **workers: tuple[float, int]) -> None:
        """By their names: what a step takes, and how many answers there are."""
        self.clock = Clock()
        self.turns = Turns(self.clock)
        self.workers = {name: Worker(self.clock, *worker) for name, worker in workers.items()}
        self._residents = {
            name: Resident(LoadModel(name, name), serving=cast("Serving", worker))
            for name, worker in self.workers.items()
        }

    def take(self, steps: int, *busy: str) -> str:
        """Names of those that made the next steps; without `busy` all of them have requests."""
        made = ""
        for _ in range(steps):
            before = {name: len(worker.told) for name, worker in self.workers.items()}
            self.turns.take([self._residents[name] for name in busy or self.workers])
            made += next(name for name, worker in self.workers.items() if len(worker.told) > before[name])
        return made


def test_answers_take_turns_step_by_step_however_long_steps_are() -> None:
    assert Table(a=(0.5, 1), b=(0.002, 3), c=(0.01, 1)).take(6) == "abcabc"


def test_a_short_prompt_waits_for_one_step_of_a_long_one_elsewhere() -> None:
    table = Table(l=(0.5, 0), s=(0.002, 0))
    table.take(20, "l")
    assert table.take(8) == "s" * 8
    assert table.take(1, "l") == "l"


def test_two_long_prompts_share_the_time_and_neither_the_past() -> None:
    table = Table(a=(0.1, 0), b=(0.3, 0))
    table.take(100, "a")
    made = table.take(40)
    assert abs(made.count("a") - 3 * made.count("b")) <= 3
    table.take(100, "a")
    assert set(table.take(5)) == {"a", "b"}


def test_a_prompt_that_has_to_wait_gives_others_their_turn() -> None:
    table = Table(a=(0.0, 0), b=(0.02, 0))
    assert table.take(100).count("b") >= 4


def test_answers_have_every_other_turn_however_prompts_share_the_rest() -> None:
    table = Table(l=(0.5, 0), s=(0.002, 0), a=(0.01, 1))
    made = table.take(60)
    assert made.count("a") == 20
    assert "lll" not in made
    assert "sss" not in made


def test_prompts_take_turns_step_by_step_beside_answers() -> None:
    """One that another process computes takes next to nothing of a turn, and has no more of them for that."""
    assert Table(a=(0.02, 1), p=(0.0002, 0), l=(0.02, 0)).take(9) == "aplaplapl"


def test_what_an_answer_took_alone_is_not_held_against_the_prompt_behind_it() -> None:
    table = Table(a=(0.1, 0), b=(0.1, 0))
    table.take(1, "b")
    table.workers["b"].answers = 1
    table.take(200, "b")
    table.workers["b"].answers = 0
    assert table.take(6).count("b") == 3


def test_once_one_answers_the_time_that_prompts_had_does_not_count() -> None:
    table = Table(l=(0.5, 0), s=(0.002, 0))
    assert table.take(4) == "lsss"
    table.workers["s"].answers = 1
    assert table.take(6) == "lslsls"


def test_each_is_told_of_the_others_answers() -> None:
    table = Table(p=(0.5, 0), a=(0.01, 2), b=(0.03, 1))
    table.take(3)
    assert table.workers["p"].told == [Elsewhere(is_busy=True, answers=3, seconds=0.04)]
    assert table.workers["a"].told == [Elsewhere(is_busy=True, answers=1, seconds=0.03)]
    table.workers["b"].answers = 0
    table.take(60)
    assert table.workers["p"].told[-1] == Elsewhere(is_busy=True, answers=2, seconds=0.01 / 2)
    table.take(1, "p")
    assert table.workers["p"].told[-1] == NOBODY


def test_only_beside_others_is_one_held_up() -> None:
    table = Table(a=(0.1, 1), b=(0.1, 1))
    table.take(3, "a")
    assert not table.workers["a"].was_held_up
    table.take(1)
    assert table.workers["a"].was_held_up
    assert table.workers["b"].was_held_up
