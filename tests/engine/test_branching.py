"""A branch owns what it begins with from its first moment on: it outlives the chat that it comes from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from engine import (
    CacheReport,
    ChatsCached,
    EngineSettings,
    Finished,
    Forget,
    Generate,
    ModelUnloaded,
    Predict,
    Predicted,
    SamplingParams,
    Share,
    SsdSettings,
)
from tests.engine.watched import restore_always
from tests.fakes.listener import Listener, running_engine
from tests.fakes.random_model import write_random_model

PROMPT = tuple(3 + (7 * place) % 290 for place in range(100))
PAGE = 16


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two models of the same shape with other weights."""
    folder = tmp_path_factory.mktemp("models")
    return write_random_model(folder / "a", seed=1), write_random_model(folder / "b", seed=2)


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], EngineSettings]:
    restore_always(monkeypatch)
    ssd = SsdSettings(tmp_path / "kv", cap_bytes=64 << 20, floor_bytes=0)
    return lambda: EngineSettings(page_size=PAGE, ssd=ssd, cache=tmp_path / "cache")


def ask(listener: Listener, name: str, chat: str, prompt: tuple[int, ...], model: Path) -> Finished:
    greedy = SamplingParams(temperature=0)
    listener.submit(
        Generate(
            name, tokens=prompt, max_tokens=8, sampling=greedy, ignore_eos=True, chat=chat, model=str(model)
        )
    )
    return listener.finished(name)


def report(listener: Listener, name: str) -> CacheReport:
    """What was found of a request that has ended."""
    return next(event for event in listener.events if isinstance(event, CacheReport) and event.id == name)


def test_it_stays_when_its_chat_is_forgotten_on_the_model_that_computed_it(
    models: tuple[Path, Path], settings: Callable[[], EngineSettings]
) -> None:
    first, second = models
    with running_engine(settings()) as listener:
        listener.load(first, "first")
        listener.load(second, "second")
        for name, model in (("on first", first), ("on second", second)):
            end = ask(listener, name, "old", PROMPT, model)
        line = (*PROMPT, *end.tokens)
        listener.submit(Share("branch", line, str(second)))
        listener.submit(Forget("old"))
        told = listener.wait(
            lambda event: isinstance(event, ChatsCached) and event.chats.keys() == {"branch"}
        )
        assert isinstance(told, ChatsCached)
        for name, model in (("lost", first), ("kept", second)):
            ask(listener, name, "branch", (*line, 5, 6, 7), model)
        whole = (len(line) - 1) // PAGE * PAGE
        assert [report(listener, name).cached_tokens for name in ("lost", "kept")] == [0, whole]


def test_it_is_found_on_ssd_after_a_restart_although_its_chat_is_forgotten(
    models: tuple[Path, Path], settings: Callable[[], EngineSettings]
) -> None:
    model, _ = models
    with running_engine(settings()) as listener:
        listener.load(model)
        end = ask(listener, "old", "old", PROMPT, model)
    line = (*PROMPT, *end.tokens)
    with running_engine(settings()) as listener:
        listener.load(model)
        listener.submit(Share("branch", line))
        listener.submit(Forget("old"))
    with running_engine(settings()) as listener:
        listener.load(model)
        ask(listener, "next", "branch", (*line, 5, 6, 7), model)
        assert report(listener, "next").restored_tokens == (len(line) - 1) // PAGE * PAGE


def test_one_from_the_middle_of_a_chat_on_ssd_stays_on_ssd(
    models: tuple[Path, Path], settings: Callable[[], EngineSettings]
) -> None:
    model, _ = models
    line, owned = PROMPT[: len(PROMPT) // 2], len(PROMPT) // 2 // PAGE * PAGE
    with running_engine(settings()) as listener:
        listener.load(model)
        ask(listener, "old", "old", PROMPT, model)
    with running_engine(settings()) as listener:
        listener.load(model)
        listener.submit(Share("branch", line))
        listener.submit(Forget("old"))
        listener.wait(lambda event: isinstance(event, ChatsCached) and event.chats.keys() == {"old"})
        told = listener.wait(
            lambda event: isinstance(event, ChatsCached) and event.chats.keys() == {"branch"}
        )
        assert isinstance(told, ChatsCached)
        assert told.chats["branch"].ssd_bytes > 0
        ask(listener, "next", "branch", (*line, 5, 6, 7), model)
        assert report(listener, "next").restored_tokens == owned


def test_it_stays_although_its_model_rested_when_it_began(
    models: tuple[Path, Path], settings: Callable[[], EngineSettings]
) -> None:
    model, _ = models
    with running_engine(replace(settings(), unload_after=0.05)) as listener:
        listener.load(model)
        end = ask(listener, "old", "old", PROMPT, model)
        listener.wait(lambda event: event == ModelUnloaded(str(model), "idle"))
        line = (*PROMPT, *end.tokens)
        listener.submit(Share("branch", line, str(model)))
        listener.submit(Forget("old"))
        told = listener.wait(
            lambda event: isinstance(event, ChatsCached) and event.chats.keys() == {"branch"}
        )
        assert isinstance(told, ChatsCached)
        assert told.chats["branch"].ssd_bytes > 0
        ask(listener, "next", "branch", (*line, 5, 6, 7), model)
        found = report(listener, "next")
        assert found.cached_tokens + found.restored_tokens == (len(line) - 1) // PAGE * PAGE


def test_what_is_missing_of_it_later_was_evicted(models: tuple[Path, Path]) -> None:
    model, _ = models
    with running_engine(EngineSettings(page_size=PAGE, kv_pages=16)) as listener:
        listener.load(model)
        ask(listener, "old", "old", PROMPT, model)
        listener.submit(Share("branch", PROMPT))
        for number in (1, 2):
            ask(listener, f"other {number}", "other", tuple(number + token for token in PROMPT), model)
            ask(listener, f"more {number}", "more", tuple(4 + number + token for token in PROMPT), model)
        listener.submit(Predict(Generate("asked", tokens=(*PROMPT, 5, 6), chat="branch")))
        told = listener.wait(lambda event: isinstance(event, Predicted))
        assert isinstance(told, Predicted)
        assert (told.missed_from, told.reason) == (told.cached_tokens, "evicted")


def test_where_there_is_nothing_it_owns_nothing(
    models: tuple[Path, Path], settings: Callable[[], EngineSettings]
) -> None:
    model, _ = models
    with running_engine(settings()) as listener:
        listener.submit(Share("branch", PROMPT))  # no model is there
        listener.load(model)
        for tokens in ((), PROMPT, (-1,) * PAGE):
            listener.submit(Share("branch", tokens))
        assert ask(listener, "first", "branch", PROMPT, model).timing.cached_tokens == 0
