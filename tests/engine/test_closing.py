"""What is asked of an engine that ends: each command ends in one event, or its sender hears at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine import (
    Bandwidth,
    Cancel,
    Command,
    Engine,
    Event,
    Failed,
    Finished,
    Flush,
    Flushed,
    Forget,
    Freed,
    Generate,
    Keep,
    LoadModel,
    MeasureBandwidth,
    Pin,
    Predict,
    ProfileStep,
    Release,
    Shutdown,
    UnloadModel,
)
from engine.residents.residents import Residents
from tests.fakes.listener import PATIENCE, Listener

ASKS = Generate("a", tokens=(5, 6, 7), max_tokens=3, ignore_eos=True)


def ends(listener: Listener) -> list[tuple[str, str]]:
    """Of each event that ends something: what it is, and whose."""
    return [(type(e).__name__, e.id) for e in listener.drain() if isinstance(e, Failed | Finished)]


@pytest.mark.parametrize(
    ("command", "id_"),
    [(ASKS, "a"), (Predict(ASKS), "a"), (LoadModel("load", "anywhere"), "load"), (ProfileStep("p"), "p")],
)
def test_what_has_an_id_fails_at_once_behind_shutdown(listener: Listener, command: Command, id_: str) -> None:
    with listener.held():
        listener.submit(Shutdown())
        listener.submit(command)
        assert ends(listener) == [("Failed", id_)]
    assert listener.engine.close(PATIENCE)
    listener.submit(command)
    failed, behind = listener.drain()
    assert isinstance(failed, Failed)
    assert behind == failed
    assert (failed.id, failed.kind) == (id_, "EngineClosed")
    assert "start MLXR again" in failed.error


def test_what_else_is_waited_for_ends_at_once_behind_shutdown(
    listener: Listener, caplog: pytest.LogCaptureFixture
) -> None:
    assert listener.engine.close(PATIENCE)
    listener.submit(Keep("chat", (1,), ((2,),)))
    listener.submit(MeasureBandwidth())
    listener.submit(Flush())
    assert listener.drain() == [Freed("chat", 0, 0), Bandwidth(None), Flushed(is_all=True)]
    listener.submit(Forget("chat"))
    assert "may stay on SSD" in caplog.text


def test_what_has_no_meaning_behind_shutdown_is_ignored(listener: Listener) -> None:
    assert listener.engine.close(PATIENCE)
    for command in (Cancel("a"), Pin("chat", True), Release("chat"), UnloadModel(), Shutdown()):
        listener.submit(command)
    assert listener.drain() == []


def test_what_was_asked_before_shutdown_ends_once(listener: Listener, folder: Path) -> None:
    listener.load(folder)
    with listener.held():
        listener.submit(ASKS)
        listener.submit(Predict(Generate("asked about")))
        listener.submit(LoadModel("again", str(folder)))
        listener.submit(Shutdown())
    assert listener.engine.close(PATIENCE)
    assert ends(listener) == [("Failed", "asked about"), ("Finished", "a"), ("Failed", "again")]


def test_a_thread_that_breaks_fails_all_that_it_was_asked(
    listener: Listener, folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    engine = listener.engine

    def breaks(self: Residents) -> None:
        engine.submit(Predict(Generate("asked about")))
        engine.submit(ProfileStep("profile"))
        engine.submit(LoadModel("more", "there"))
        engine.submit(Keep("chat", (1,), ((2,),)))
        engine.submit(MeasureBandwidth())
        engine.submit(Flush())
        engine.submit(Forget("chat"))
        raise RuntimeError("nobody thought of this")

    listener.load(folder)
    monkeypatch.setattr(Residents, "take_turn", breaks)
    listener.submit(ASKS)
    for request in ("a", "asked about", "profile", "more"):
        assert "nobody thought of this" in listener.failed(request).error
    assert engine.close(PATIENCE)
    assert len(ends(listener)) == 4
    assert [event for event in listener.drain() if isinstance(event, Freed | Bandwidth | Flushed)] == [
        Freed("chat", 0, 0),
        Bandwidth(None),
        Flushed(is_all=True),
    ]
    assert "the engine's thread broke" in caplog.text
    assert "may stay on SSD" in caplog.text
    engine.submit(ASKS)
    assert ends(listener)[4:] == [("Failed", "a")]


def test_an_engine_that_never_started_takes_nothing_once_it_is_closed() -> None:
    events: list[Event] = []
    engine = Engine(events.append)
    assert engine.close(timeout=1)
    engine.submit(ASKS)
    assert [(type(event), event.kind) for event in events if isinstance(event, Failed)] == [
        (Failed, "EngineClosed")
    ]
