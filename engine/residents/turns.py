"""Whose turn it is among the models that are busy, and what each is told of the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count

from engine.residents.elsewhere import NOBODY, Elsewhere
from engine.residents.resident import Resident

_LEAST = 0.001
"""Seconds that a step counts for at least: one that has to wait does not take its turns in a row for ever."""


class Turns:
    """A step each in turn; but where all of them only read prompts, they share the time and not the steps.

    So a short prompt does not wait for a long step of another model between any two of its own. Beside
    answers no step is long: steps of prompts are cut by what those take. For one thread, the engine's.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._numbers = count(1)
        self._spent = dict[Resident, float]()  # while all read, since the one that had least

    def take(self, busy: Sequence[Resident]) -> None:
        """Make a step of one of these, that have a request: one at least."""
        if len(busy) > 1:
            for each in busy:
                each.at_work.neighbour.held_up()
        readers = [resident for resident in busy if not resident.at_work.neighbour.answers]
        do_all_read = len(readers) == len(busy)
        resident = self._reader(busy) if do_all_read else min(busy, key=lambda each: each.turn)
        resident.turn = next(self._numbers)
        resident.used = began = self._clock()
        resident.at_work.work(_elsewhere(resident, busy, len(readers)))
        if do_all_read:
            self._spent[resident] += max(_LEAST, self._clock() - began)

    def _reader(self, readers: Sequence[Resident]) -> Resident:
        """Who has had least of the time that these share; who is new among them has had none of it."""
        spent = {resident: self._spent.get(resident, 0.0) for resident in readers}
        least = min(spent.values())
        self._spent = {resident: seconds - least for resident, seconds in spent.items()}
        return min(readers, key=lambda resident: (self._spent[resident], resident.turn))


def _elsewhere(resident: Resident, busy: Sequence[Resident], readers: int) -> Elsewhere:
    """What that one is told of the others; so many of all read prompts only."""
    others = [other.at_work.neighbour for other in busy if other is not resident]
    if not others:
        return NOBODY
    answers = sum(other.answers for other in others)
    seconds = sum(other.answer_seconds for other in others if other.answers)
    return Elsewhere(is_busy=True, answers=answers, seconds=seconds / max(1, readers))
