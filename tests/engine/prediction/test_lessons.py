"""What a step took is told to those whom it concerns: how long prompts are cut, and what they take."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from engine.pacing.step_times import Reading, Sending
from engine.pacing.ways import Way
from engine.prediction.lessons import Lessons

READ = 1e-6
"""Seconds of a reading that found the step done."""


class Heard:
    """Who is told, and of what."""

    def __init__(self, *, is_alone: bool = True) -> None:
        self.took, self.answered = list[Any](), list[Any]()
        self.filled, self.decoded = list[Any](), list[Any]()
        chunks = SimpleNamespace(filled=self._note(self.filled), decoded=self._note(self.decoded))
        batcher = SimpleNamespace(chunks=chunks, has_one=is_alone)
        finding = SimpleNamespace(took=self._note(self.took), answered=self._note(self.answered))
        self.lessons = Lessons(cast(Any, batcher), cast(Any, finding))

    def _note(self, told: list[Any]) -> Callable[..., None]:
        def note(*what: object) -> None:
            told.append(what)

        return note


def sent(began: float, ended: float, answers: int = 0, piece: object = None, draft: object = None) -> Any:
    return SimpleNamespace(sending=Sending(began, ended), answers=answers, slice=piece, draft=draft)


def test_steps_that_are_sent_ahead_take_what_is_between_two_readings() -> None:
    heard = Heard()
    first, second = sent(10.0, 10.001, answers=3), sent(10.001, 10.002, answers=2)
    heard.lessons.read(first, Reading(10.002, 10.05), second)
    heard.lessons.read(second, Reading(10.06, 10.10), None)
    assert heard.decoded == [(3, pytest.approx(0.05)), (2, pytest.approx(0.05))]
    assert heard.took == [(first, pytest.approx(0.05)), (second, pytest.approx(0.05))]
    assert not heard.filled


def test_of_a_chunk_its_part_its_company_and_its_way_are_told() -> None:
    heard, piece = Heard(), SimpleNamespace(tokens=64, share=0.5, way=Way.MIXED)
    step = sent(10.0, 10.01, answers=2, piece=piece)
    heard.lessons.read(step, Reading(10.01, 10.2), None)
    assert heard.filled == [(64, 0.5, pytest.approx(0.2), 2, Way.MIXED)]
    assert heard.took == [(step, pytest.approx(0.2))]
    assert not heard.decoded


def test_of_a_step_that_was_done_while_the_next_was_built_nothing_is_told() -> None:
    heard = Heard()
    heard.lessons.read(sent(10.0, 10.01, answers=1), Reading(11.0, 11.0 + READ), sent(10.01, 11.0, answers=1))
    assert heard.took == heard.decoded == heard.filled == []


def test_what_a_draft_takes_to_make_is_part_of_its_step_and_says_nothing_of_others() -> None:
    heard = Heard()
    heard.lessons.read(sent(10.0, 10.01, answers=1), Reading(10.01, 10.1), None)
    drafted = sent(10.5, 10.51, answers=1, draft=object())
    heard.lessons.read(drafted, Reading(10.51, 10.6), None)
    assert heard.took[1] == (drafted, pytest.approx(0.5))
    assert len(heard.decoded) == 1


def test_a_step_of_nobody_s_tokens_is_none_of_answers() -> None:
    heard = Heard()
    heard.lessons.read(sent(10.0, 10.01), Reading(10.01, 10.1), None)
    assert heard.decoded == heard.filled == []
    assert len(heard.took) == 1


@pytest.mark.parametrize("is_alone", [True, False])
def test_first_tokens_teach_where_nobody_waits_meanwhile(is_alone: bool) -> None:
    heard, request = Heard(is_alone=is_alone), cast(Any, object())
    heard.lessons.answered(request)
    assert heard.answered == [(request,)] * is_alone
