"""What is asked of an engine that ends: each command ends in one event, or its sender hears at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine import (
    Bandwidth,
    Cancel,
    Command,
    Engine,
    EngineClosed,
    Failed,
    Finished,
    Forget,
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
from engine.residents import Residents
from tests.fakes.listener import PATIENCE, Listener

ASKS = Generate("a", tokens=(5, 6, 7), max_tokens=3, ignore_eos=True)


def ends(listener: Listener) -> list[tuple[str, str]]:
    """Of each event that ends something: what it is, and whose."""
    return [(type(e).__name__, e.id) for e in listener.drain() if isinstance(e, Failed | Finished)]


@pytest.mark.parametrize(
    "command",
    [
        ASKS,
        Predict(ASKS),
        LoadModel("load", "anywhere"),
        Keep("chat", (1,), ((2,),)),
        MeasureBandwidth(),
        ProfileStep("profile"),
        Forget("chat"),
    ],
)
def test_what_somebody_waits_for_is_refused_behind_shutdown(listener: Listener, command: Command) -> None:
    with listener.held():
        listener.submit(Shutdown())
        with pytest.raises(EngineClosed, match="the engine has ended"):
            listener.submit(command)
    assert listener.engine.close(PATIENCE)
    with pytest.raises(EngineClosed, match="the engine has ended"):
        listener.submit(command)
    assert ends(listener) == []


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
        for command in (Predict(Generate("asked about")), ProfileStep("profile"), LoadModel("more", "there")):
            engine.submit(command)
        raise RuntimeError("nobody thought of this")

    listener.load(folder)
    monkeypatch.setattr(Residents, "take_turn", breaks)
    listener.submit(ASKS)
    for request in ("a", "asked about", "profile", "more"):
        assert "nobody thought of this" in listener.failed(request).error
    assert engine.close(PATIENCE)
    assert len(ends(listener)) == 4
    assert "the engine's thread broke" in caplog.text
    with pytest.raises(EngineClosed):
        engine.submit(ASKS)


def test_an_engine_that_never_started_takes_nothing_once_it_is_closed() -> None:
    engine = Engine(lambda event: None)
    assert engine.close(timeout=1)
    with pytest.raises(EngineClosed):
        engine.submit(ASKS)


def test_what_cannot_be_measured_is_told_too(
    listener: Listener, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Who waits for it asks no more until it comes."""

    def breaks() -> float:
        raise RuntimeError("the device was lost")

    monkeypatch.setattr("engine.bandwidth.is_short_of_memory", lambda size: False)
    monkeypatch.setattr("engine.bandwidth._fastest", breaks)
    listener.submit(MeasureBandwidth())
    assert listener.wait(lambda event: isinstance(event, Bandwidth)) == Bandwidth(None)
    assert "the device was lost" in caplog.text
