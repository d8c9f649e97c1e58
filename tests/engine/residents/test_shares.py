"""The budget of KV pages is divided anew as models come and go."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from engine import (
    EngineSettings,
    Event,
    Finished,
    LoadModel,
    ModelReady,
    ModelUnloaded,
    Predict,
    Predicted,
    Stats,
    UnloadModel,
)
from tests.engine.residents.two_models import (
    CONTEXT_PAGES,
    ONE,
    PAGE_BYTES,
    PROMPT,
    Arenas,
    ask,
    is_chunk,
    pages_of,
    unloaded,
)
from tests.engine.watched import watch_memory
from tests.fakes.listener import Listener, running_engine


def test_the_arenas_together_keep_to_the_budget(
    models: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    arenas = Arenas(monkeypatch)
    watch = watch_memory(monkeypatch)
    budget = int(2.5 * ONE)
    with running_engine(EngineSettings(prefill_chunk=64, kv_bytes=budget)) as listener:
        first, second, _ = models
        assert listener.load(first, "first").model.total_pages == budget // PAGE_BYTES
        for number in range(2):
            listener.submit(ask(f"early{number}", first, 8, prompt=PROMPT[number:] * 2))
            listener.finished(f"early{number}")
        assert listener.load(second, "second").model.total_pages == budget // PAGE_BYTES // 2
        assert pages_of(listener, first) == budget // PAGE_BYTES // 2
        for number in range(4):  # more than fits, of both
            for name, model in (("a", first), ("b", second)):
                prompt = tuple((token * (number + 2)) % 290 + 3 for token in PROMPT * 2)
                listener.submit(ask(f"{name}{number}", model, 8, chat=f"{name}{number}", prompt=prompt))
        for number in range(4):
            for name in "ab":
                listener.finished(f"{name}{number}")
    assert not watch.wrong
    assert len(arenas.all) == 2
    assert budget * 0.8 < arenas.most <= budget


def test_a_shorter_context_of_its_own_lets_both_stay(models: tuple[Path, Path, Path]) -> None:
    first, second, _ = models
    with running_engine(EngineSettings(prefill_chunk=64, kv_bytes=ONE + ONE // 4)) as listener:
        listener.load(first, "first")
        listener.submit(LoadModel("second", str(second), context=128))
        second_ready = listener.end_of("second")
        assert isinstance(second_ready, ModelReady)
        assert not unloaded(listener.events)
        assert (second_ready.model.total_pages, pages_of(listener, first)) == (8, CONTEXT_PAGES)


def test_unloading_one_gives_the_other_the_whole_budget(
    listener: Listener, models: tuple[Path, Path, Path]
) -> None:
    first, second, _ = models
    listener.load(first, "first")
    listener.load(second, "second")
    assert pages_of(listener, first) == CONTEXT_PAGES
    listener.submit(UnloadModel(str(second)))
    listener.wait(lambda event: event == ModelUnloaded(str(second)))
    listener.wait(lambda event: isinstance(event, Stats) and event.total_pages == 2 * CONTEXT_PAGES)
    assert pages_of(listener, first) == 2 * CONTEXT_PAGES


def test_who_goes_on_keeps_what_is_cached_when_another_leaves(models: tuple[Path, Path, Path]) -> None:
    """The first writes, and its arena is as large as its share; the second rests, and so is its own."""
    (first, *others), contexts, pages = models, (128, 16), 164
    short = ask("short", others[0], chat="short", prompt=PROMPT[:100])
    with running_engine(EngineSettings(prefill_chunk=64, kv_bytes=pages * PAGE_BYTES)) as listener:
        listener.load(first, "first")
        for model, context in zip(others, contexts, strict=True):
            listener.submit(LoadModel(model.name, str(model), context=context))
            listener.end_of(model.name)
        listener.submit(short)
        listener.finished("short")
        for number in range(6):
            listener.submit(ask(f"a{number}", first, chat=f"a{number}", prompt=PROMPT[number:]))
            listener.finished(f"a{number}")
        assert [pages_of(listener, model) for model in models] == [128, 32, 4]
        leaves, predict = UnloadModel(str(others[1])), Predict(replace(short, id="again"))
        listener.submit_at(is_chunk("long"), leaves, predict)
        listener.submit(ask("long", first, 300))
        predicted = listener.wait(lambda event: isinstance(event, Predicted))
        assert ModelUnloaded(str(others[1])) in listener.events
        assert isinstance(predicted, Predicted)
        assert predicted.cached_tokens == 99
        shares = [pages_of(listener, model) for model in models[:2]]
        assert sum(shares) in (pages - 1, pages)


def test_one_that_cannot_be_loaded_anew_leaves_the_other_the_whole_budget(
    listener: Listener, models: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    second = tmp_path / "second"
    shutil.copytree(models[1], second)
    listener.load(models[0], "first")
    listener.load(second, "second")
    config = json.loads((second / "config.json").read_text())
    (second / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 2}))
    listener.submit(LoadModel("again", str(second)))
    assert "do not belong" in listener.failed("again").error  # which its headers do not tell
    assert pages_of(listener, models[0]) == 2 * CONTEXT_PAGES


def test_an_arena_that_is_larger_than_its_share_goes_to_the_disk_and_comes_back(
    models: tuple[Path, Path, Path], with_disk: Callable[..., EngineSettings]
) -> None:
    first, second, _ = models
    with running_engine(with_disk(kv_bytes=2 * ONE)) as listener:
        listener.load(first, "first")
        before: list[Finished] = []
        for number in range(3):
            prompt = tuple((token + number) % 290 + 3 for token in PROMPT * 2)
            listener.submit(ask(f"a{number}", first, chat=f"a{number}", prompt=prompt))
            before.append(listener.finished(f"a{number}"))
        listener.load(second, "second")
        assert not unloaded(listener.events)
        for number in range(3):
            prompt = before[number].prompt_tokens
            listener.submit(ask(f"again{number}", first, chat=f"a{number}", prompt=prompt))
            again = listener.finished(f"again{number}")
            assert again.tokens == before[number].tokens
            assert again.timing.cached_tokens == 384


def loaded_beside_answers(listener: Listener, first: Path, second: Path, answers: int) -> Event:
    """How loading the second ended, while the first gave so many answers, each in a chat of its own."""
    listener.load(first, "first")
    listener.submit_at(is_chunk(f"a{answers - 1}"), LoadModel("second", str(second)))
    with listener.held():
        for number in range(answers):
            listener.submit(ask(f"a{number}", first, 300, chat=f"a{number}", prompt=PROMPT[number:]))
    return listener.end_of("second")


def test_an_arena_that_is_in_use_is_left_as_it_is(models: tuple[Path, Path, Path]) -> None:
    first, second, _ = models
    with running_engine(EngineSettings(prefill_chunk=64, kv_bytes=2 * ONE)) as listener:
        loaded_beside_answers(listener, first, second, 3)
        # Its arena has more than half of the budget: the other has no room beside it.
        assert unloaded(listener.events) == [ModelUnloaded(str(first), "room")]


def test_what_its_arena_gives_back_at_rest_is_shared_with_who_came_beside_it(
    models: tuple[Path, Path, Path],
    with_disk: Callable[..., EngineSettings],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second, _ = models
    monkeypatch.setattr("engine.rest.tidying.SPILL_AFTER", 0.05)
    monkeypatch.setattr("engine.rest.tidying.FREE_AFTER", 0.2)
    half = 52  # of 104, of which the first has 64 as soon as it needs any
    with running_engine(with_disk(kv_bytes=2 * half * PAGE_BYTES)) as listener:
        ready = loaded_beside_answers(listener, first, second, 2)
        assert isinstance(ready, ModelReady)
        assert ready.model.total_pages < half
        told: dict[str, int] = {}
        while told != {str(first): half, str(second): half}:
            stats = listener.wait(lambda event: isinstance(event, Stats))
            assert isinstance(stats, Stats)
            told[stats.model] = stats.total_pages
        assert not unloaded(listener.events)
