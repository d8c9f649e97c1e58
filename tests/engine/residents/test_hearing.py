"""While a model is loaded a request that waits may be withdrawn, and who hangs on nothing goes first."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from engine import (
    Cancel,
    Command,
    EngineSettings,
    Failed,
    Finished,
    Forget,
    Generate,
    LetRest,
    LoadModel,
    LoadProgress,
    ModelReady,
    ModelUnloaded,
    Predict,
    TextChunk,
    UnloadModel,
)
from engine.residents.hearing import goes_first
from tests.engine.residents.two_models import ask
from tests.fakes.listener import Listener, running_engine


def reads(listener: Listener, name: str) -> None:
    """Wait until that load has begun to read."""
    listener.wait(lambda event: isinstance(event, LoadProgress) and event.id == name)


def ends(listener: Listener, name: str) -> list[Finished | Failed]:
    listener.drain()
    return [event for event in listener.events if isinstance(event, Finished | Failed) and event.id == name]


def test_a_request_that_waits_for_a_load_ends_when_it_is_cancelled(
    models: tuple[Path, Path, Path], disk: threading.Event
) -> None:
    with running_engine(EngineSettings(prefill_chunk=64)) as listener:
        disk.clear()
        listener.submit(LoadModel("load", str(models[0])))
        listener.submit(replace(ask("waits", models[0], 8), n=3))
        listener.submit(ask("goes on", models[0], 8))
        reads(listener, "load")
        listener.submit(Cancel("waits"))
        finished = listener.finished("waits")
        assert (finished.reason, finished.tokens, finished.prompt_tokens) == ("cancelled", (), ())
        assert [other.reason for other in finished.others] == ["cancelled"] * 2
        listener.submit(ask("waits", models[0], 4))  # its id is free again
        listener.submit(Cancel("goes on", sample=0))
        disk.set()
        assert listener.finished("goes on").reason == "cancelled"
        listener.wait(lambda event: isinstance(event, Finished) and event.id == "waits")
        assert [event.tokens != () for event in ends(listener, "waits")] == [False, True]
        assert len(ends(listener, "goes on")) == 1


@pytest.mark.parametrize("is_damaged", [False, True])
def test_a_request_that_woke_a_model_ends_when_it_is_cancelled(
    endless: Path, models: tuple[Path, Path, Path], disk: threading.Event, *, is_damaged: bool
) -> None:
    """Beside another model's answer. The load ends too, and nobody hears of the request again."""
    weights = models[0] / "model.safetensors"
    whole = weights.read_bytes()
    with running_engine(EngineSettings(prefill_chunk=64, unload_after=0.05)) as listener:
        listener.load(models[0], "first")
        listener.wait(lambda event: isinstance(event, ModelUnloaded))
        listener.load(endless, "endless")
        listener.submit(ask("running", endless, 1 << 16, chat="r"))
        listener.wait(lambda event: isinstance(event, TextChunk))
        listener.drain()
        disk.clear()
        listener.submit(ask("woke it", models[0], 300))
        reads(listener, "first")
        for _ in range(2):
            listener.submit(Cancel("woke it"))
        finished = listener.finished("woke it")
        assert (finished.reason, finished.tokens) == ("cancelled", ())
        if is_damaged:
            weights.touch()  # as one that was changed meanwhile
        disk.set()
        listener.wait(lambda event: event == ModelUnloaded(str(models[0]), "idle"))
        assert [event.id for event in listener.events if isinstance(event, ModelReady)] == [
            "first",
            "endless",
        ]
        assert not [event for event in listener.events if isinstance(event, Failed)]
        listener.submit(ask("behind", models[0], 8))
        assert listener.finished("behind").reason == "length"
        assert len(ends(listener, "woke it")) == 1
        listener.submit(Cancel("running"))
        assert listener.finished("running").reason == "cancelled"
    assert weights.read_bytes() == whole


@pytest.mark.parametrize("behind", ["request", "load", "prediction"])
def test_the_load_goes_on_where_somebody_else_waits_for_it(
    models: tuple[Path, Path, Path], disk: threading.Event, behind: str
) -> None:
    with running_engine(EngineSettings(prefill_chunk=64, unload_after=0.05)) as listener:
        listener.load(models[0], "first")
        listener.wait(lambda event: isinstance(event, ModelUnloaded))
        listener.submit(LetRest(None))
        disk.clear()
        listener.submit(ask("woke it", models[0], 300))
        reads(listener, "first")
        listener.drain()
        asked = ask("behind", models[0])
        others = {"request": asked, "load": LoadModel("again", str(models[0])), "prediction": Predict(asked)}
        listener.submit(others[behind])
        listener.submit(Cancel("woke it"))
        assert listener.finished("woke it").reason == "cancelled"
        disk.set()
        listener.wait(lambda event: isinstance(event, ModelReady | ModelUnloaded))
        assert isinstance(listener.events[-1], ModelReady)


LOAD, MINE, OTHERS = LoadModel("l", "new"), Generate("g", model="here"), Generate("o", model="here")


@pytest.mark.parametrize(
    ("command", "now", "before", "expected"),
    [
        (Cancel("o"), OTHERS, (), True),
        (Cancel("o", sample=1), OTHERS, (), False),
        (Cancel("g"), OTHERS, (), True),
        (MINE, OTHERS, (), True),
        (MINE, LoadModel("l", "here"), (), False),
        (MINE, LOAD, (), True),
        (MINE, LOAD, (Predict(OTHERS),), True),
        (MINE, LOAD, (Cancel("o"),), True),
        (MINE, LOAD, (OTHERS,), False),
        (MINE, LOAD, (LOAD,), False),
        (MINE, LOAD, (Forget("c"),), False),
        (Generate("g", model="new"), LOAD, (), False),
        (Generate("g"), LOAD, (), False),
        (Cancel("g"), LOAD, (LOAD, OTHERS), True),
        (Cancel("o"), LOAD, (LOAD, OTHERS), True),
        (Cancel("o", sample=0), LOAD, (LOAD, OTHERS), False),
        (UnloadModel("here"), LOAD, (), False),
        (Forget("c"), LOAD, (), False),
        (Predict(MINE), LOAD, (), True),
        (Predict(MINE), LOAD, (Forget("c"),), False),
        (Predict(MINE), LoadModel("l", "here"), (), False),
        (Predict(Generate("g", model="new")), LOAD, (), False),
    ],
)
def test_only_what_hangs_on_nothing_goes_first(
    command: Command, now: Command, before: tuple[Command, ...], *, expected: bool
) -> None:
    class Here:
        pass

    here = Here()
    find: Callable[[str], object] = lambda path: here if path == "here" else None  # noqa: E731
    assert goes_first(command, now, before, find) is expected  # type: ignore[arg-type]
