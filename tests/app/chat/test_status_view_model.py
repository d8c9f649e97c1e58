"""The status line's numbers are those of the chosen model, whatever others do."""

from __future__ import annotations

import pytest
from pytestqt.qtbot import QtBot

from app.chat.engine_status import EngineStatus
from app.chat.status_view_model import StatusViewModel
from engine import Finished, ModelReady, ModelUnloaded, PrefillProgress, Stats, TextChunk, Timing
from tests.fakes.scripted_engine import model_info

A, B = "/models/a", "/models/b"


def pulse(model: str, pages: int) -> Stats:
    return Stats("", 0, 0, 0.0, 0.0, pages, 100, 0, 0, model=model)


@pytest.fixture
def status(qtbot: QtBot) -> StatusViewModel:
    """Of two loaded models, the first of which is chosen; requests are named like their models."""
    status = StatusViewModel(lambda request: {"a": A, "b": B}.get(request, ""))
    for model in (A, B):
        status.handle(ModelReady("load", model_info(model)))
    status.show(A)
    return status


def test_each_model_has_its_own(status: StatusViewModel) -> None:
    status.handle(pulse(A, 1))
    status.handle(pulse(B, 2))
    status.handle(PrefillProgress("a", 10, 100, 0))
    status.handle(PrefillProgress("b", 10, 200, 0))
    assert status.status.prefill_total == 100
    status.handle(TextChunk("a", "x", 1))
    assert (status.status.model, status.status.pages_held) == (model_info(A), 1)
    assert status.status.prefill_total == 0
    status.show(B)
    assert (status.status.model, status.status.pages_held) == (model_info(B), 2)
    assert status.status.prefill_total == 200


def test_the_end_of_an_answer_is_its_model_s(status: StatusViewModel) -> None:
    timing = Timing(1.0, 3, 0, 100.0, 62.0)
    status.handle(Finished("b", "stop", "x", (1,), (2, 3), None, timing))
    status.handle(Finished("nobody", "stop", "x", (1,), (2, 3), None, timing))
    assert status.status.decode_tps == 0
    status.show(B)
    assert (status.status.decode_tps, status.status.ttft_ms) == (62, 1.0)


def test_another_choice_is_told_at_once_and_what_is_unloaded_is_empty(status: StatusViewModel) -> None:
    told: list[EngineStatus] = []
    status.changed.connect(told.append)
    status.handle(ModelUnloaded(A))
    status.show(B)
    status.show(A)
    assert [one.model for one in told] == [model_info(B), None]
