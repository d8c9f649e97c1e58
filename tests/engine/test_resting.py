"""A model that nobody uses leaves memory, and comes back with the next request."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from engine import (
    CacheReport,
    ChatsCached,
    EngineError,
    EngineSettings,
    Event,
    Failed,
    Forget,
    Generate,
    LetRest,
    LoadModel,
    LoadProgress,
    ModelReady,
    ModelUnloaded,
    Pin,
    Predict,
    Predicted,
    SamplingParams,
    SsdSettings,
    TextChunk,
    UnloadModel,
)
from tests.engine.kv.spilled import owners_in
from tests.engine.watched import restore_always
from tests.fakes.listener import Listener, running_engine
from tests.fakes.random_model import write_random_model

PROMPT = tuple(3 + (7 * place) % 290 for place in range(200))
SOON = 0.2  # seconds


def is_idle(event: Event) -> bool:
    return isinstance(event, ModelUnloaded) and event.reason == "idle"


def settings(folder: Path, after: float | None = SOON) -> EngineSettings:
    ssd = SsdSettings(folder / "kv", cap_bytes=64 << 20, floor_bytes=0)
    return EngineSettings(ssd=ssd, cache=folder / "cache", unload_after=after)


def ask(name: str, answer: int = 8) -> Generate:
    greedy = SamplingParams(temperature=0)
    return Generate(name, tokens=PROMPT, max_tokens=answer, sampling=greedy, ignore_eos=True, chat="c")


@pytest.fixture
def resting(folder: Path, tmp_path: Path) -> Iterator[Listener]:
    """An engine whose model has answered once and rests."""
    with running_engine(settings(tmp_path)) as listener:
        listener.load(folder)
        listener.submit(ask("first"))
        listener.finished("first")
        listener.wait(is_idle)
        yield listener


@pytest.mark.parametrize("after", [0.0, -1.0, float("nan")])
def test_a_time_that_makes_no_sense_is_refused(after: float) -> None:
    with pytest.raises(EngineError, match="unload_after"):
        EngineSettings(unload_after=after)
    with pytest.raises(EngineError, match="above 0"):
        LetRest(after)


@pytest.mark.usefixtures("settled_memory")
def test_it_leaves_memory_and_the_next_request_brings_it_and_its_pages_back(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    restore_always(monkeypatch)
    before = mx.get_active_memory()
    with running_engine(settings(tmp_path)) as listener:
        weights = listener.load(folder).model.weight_bytes
        listener.submit(ask("first"))
        first = listener.finished("first")
        gone = listener.wait(is_idle)
        assert gone == ModelUnloaded(str(folder), "idle")
        assert mx.get_active_memory() - before < weights // 10
        (told,) = [event for event in listener.events if isinstance(event, ChatsCached)][-1].chats.values()
        assert told.memory_bytes == 0
        assert told.ssd_bytes > 0

        seen = len(listener.events)
        listener.submit(ask("again"))
        again = listener.finished("again")
        woken = listener.events[seen:]
        assert [type(event) for event in woken].index(ModelReady) > 0
        assert all(event.id == "load" for event in woken if isinstance(event, LoadProgress | ModelReady))
        (report,) = [event for event in woken if isinstance(event, CacheReport)]
        assert report.restored_tokens == 192
        assert again.tokens == first.tokens


def test_another_time_holds_at_once(folder: Path, tmp_path: Path) -> None:
    with running_engine(settings(tmp_path, None)) as listener:
        listener.load(folder)
        listener.submit(LetRest(SOON))
        listener.wait(is_idle)


def test_a_prediction_brings_it_back(resting: Listener) -> None:
    seen = len(resting.events)
    resting.submit(Predict(ask("draft")))
    resting.wait(lambda event: isinstance(event, Predicted) and event.id == "draft")
    assert any(isinstance(event, ModelReady) for event in resting.events[seen:])


def test_other_commands_let_it_rest(resting: Listener) -> None:
    seen = len(resting.events)
    resting.submit(Pin("c", True))
    resting.submit(UnloadModel())
    resting.wait(lambda event: isinstance(event, ModelUnloaded) and event.reason == "asked")
    assert not any(isinstance(event, ModelReady) for event in resting.events[seen:])
    resting.submit(ask("late"))
    assert "no model is loaded" in resting.failed("late").error


def test_it_stays_while_it_is_used(folder: Path, tmp_path: Path) -> None:
    with running_engine(settings(tmp_path, after=0.05)) as listener:
        with listener.held():
            listener.submit(LoadModel("load", str(folder)))
            listener.submit(ask("long", answer=300))
        listener.finished("long")
        words = [event for event in listener.events if isinstance(event, TextChunk)]
        assert words
        assert not any(isinstance(event, ModelUnloaded) for event in listener.events)
        listener.wait(is_idle)


def test_pages_that_are_pinned_keep_it(folder: Path, tmp_path: Path) -> None:
    with running_engine(settings(tmp_path, after=None)) as listener:
        listener.submit(LoadModel("load", str(folder)))
        listener.submit(Pin("c", True))
        listener.submit(ask("first"))
        listener.finished("first")
        listener.submit(LetRest(SOON))
        assert not any(map(is_idle, listener.listen(3 * SOON)))
        listener.submit(Pin("c", False))
        listener.wait(is_idle)


def test_one_that_cannot_come_back_says_why_and_is_tried_again(tmp_path: Path) -> None:
    folder = write_random_model(tmp_path / "tiny")
    with running_engine(settings(tmp_path)) as listener:
        listener.load(folder)
        listener.wait(is_idle)
        shutil.move(folder, tmp_path / "elsewhere")
        seen = len(listener.events)
        listener.submit(ask("first"))
        failed = listener.failed("first")
        of_load = next(event for event in listener.events[seen:] if isinstance(event, Failed))
        assert (of_load.id, of_load.error) == ("load", failed.error)
        assert str(folder) in failed.error
        shutil.move(tmp_path / "elsewhere", folder)
        listener.submit(ask("second"))
        assert listener.finished("second").tokens


@pytest.mark.usefixtures("forgotten_on_the_spot")
def test_one_that_rests_and_cannot_be_loaded_anew_is_said_to_be_gone(tmp_path: Path) -> None:
    """As one that is at work then: what asks it is refused."""
    folder = write_random_model(tmp_path / "model")
    with running_engine(settings(tmp_path)) as listener:
        listener.load(folder)
        listener.wait(is_idle)
        weights = folder / "model.safetensors"
        save_file({**load_file(weights), "model.layers.77.more": np.zeros(3, np.float32)}, weights)
        listener.submit(LoadModel("anew", str(folder), context=128))
        assert "model.layers.77.more" in listener.failed("anew").error
        assert ModelUnloaded(str(folder), "asked") in listener.events
        listener.submit(ask("later"))
        assert listener.failed("later").kind == "NoModel"


@pytest.mark.usefixtures("forgotten_on_the_spot")
def test_a_chat_that_is_forgotten_while_it_rests_leaves_no_page(resting: Listener, tmp_path: Path) -> None:
    assert owners_in(tmp_path / "kv") == {"c"}
    resting.submit(Forget("c"))
    resting.wait(lambda event: event == ChatsCached({}))
    assert owners_in(tmp_path / "kv") == set()


def test_requests_are_for_the_newest_model_though_another_rests(resting: Listener, tmp_path: Path) -> None:
    other = write_random_model(tmp_path / "other", seed=1)
    resting.submit(LetRest(None))
    ready = resting.load(other, "other")
    assert ready.model.path == str(other)
    seen = len(resting.events)
    resting.submit(ask("first of it"))
    resting.finished("first of it")
    assert not any(isinstance(event, ModelReady) for event in resting.events[seen:])
