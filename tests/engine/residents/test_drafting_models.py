"""Models that others guess for, beside models that have none."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine import EngineSettings, LoadModel, LoadProgress, ModelUnloaded, Stats, UnloadModel
from tests.engine.residents.two_models import (
    CONTEXT_PAGES,
    ONE,
    PAGE_BYTES,
    PROMPT,
    Arenas,
    ask,
    pages_of,
    unloaded,
)
from tests.engine.speculation.guide import GUIDE
from tests.engine.watched import guess_always, warm_always, watch_memory
from tests.fakes.listener import Listener, running_engine


@pytest.fixture(autouse=True)
def _guesses(monkeypatch: pytest.MonkeyPatch) -> None:
    guess_always(monkeypatch)
    warm_always(monkeypatch)


def answered(listener: Listener, name: str, model: Path, chat: str, number: int = 0) -> tuple[int, ...]:
    """An answer to a prompt of its own."""
    prompt = tuple((token * (number + 2)) % 290 + 3 for token in PROMPT)
    listener.submit(ask(name, model, 60, chat=chat, prompt=prompt))
    return listener.finished(name).tokens


def test_a_model_its_draft_and_another_model_keep_to_one_budget(
    models: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, _ = models
    with running_engine(EngineSettings(prefill_chunk=64)) as listener:
        listener.load(first, "plain")
        plain = [answered(listener, f"plain {number}", first, "", number) for number in range(4)]
    arenas = Arenas(monkeypatch)
    watch, budget = watch_memory(monkeypatch), 3 * ONE + ONE // 2
    with running_engine(EngineSettings(prefill_chunk=64, kv_bytes=budget)) as listener:
        ready = listener.load(first, "first", draft=first)
        assert ready.model.total_pages == budget // PAGE_BYTES - CONTEXT_PAGES
        draft = watch.models[-1].arena
        early = answered(listener, "early", first, "early")
        told = listener.wait(lambda event: isinstance(event, Stats) and not event.active_id)
        assert isinstance(told, Stats)
        assert told.memory.draft_bytes == ready.model.weight_bytes + draft.pages * draft.page_bytes
        assert draft.pages > 0
        listener.load(second, "second")
        assert not unloaded(listener.events)
        drafting = pages_of(listener, first)
        assert CONTEXT_PAGES <= drafting < ready.model.total_pages
        assert (drafting + CONTEXT_PAGES + pages_of(listener, second)) * PAGE_BYTES <= budget
        again = list[tuple[int, ...]]()
        for number in range(4):
            listener.submit(ask(f"b{number}", second, 60, chat=f"b{number}", prompt=PROMPT[number:]))
            again.append(answered(listener, f"a{number}", first, f"a{number}", number))
            assert listener.finished(f"a{number}").drafted_tokens > 0
            listener.finished(f"b{number}")
        listener.submit(UnloadModel(str(first)))
        listener.wait(lambda event: event == ModelUnloaded(str(first)))
        listener.wait(lambda event: isinstance(event, Stats) and event.total_pages == budget // PAGE_BYTES)
    assert [early, *again] == [plain[0], *plain]
    assert not watch.wrong
    assert len(arenas.all) == 3
    assert budget * 0.5 < arenas.most <= budget


def test_progress_counts_both_models_bytes(models: tuple[Path, Path, Path]) -> None:
    first, second, _ = models
    with running_engine() as listener:
        listener.load(first, "alone")
        listener.load(second, "both", draft=first)
        told = {
            name: [
                (event.loaded_bytes, event.total_bytes)
                for event in listener.events
                if isinstance(event, LoadProgress) and event.id == name
            ]
            for name in ("alone", "both")
        }
    size = told["alone"][-1][1]
    assert told["alone"][-1] == (size, size)
    assert told["both"][-1] == (2 * size, 2 * size)
    assert told["both"] == sorted(told["both"])


def test_a_draft_that_cannot_guess_for_it_unloads_nobody(models: tuple[Path, Path, Path]) -> None:
    with running_engine(EngineSettings(prefill_chunk=64, kv_bytes=2 * ONE)) as listener:
        listener.load(models[0], "first")
        listener.load(models[1], "second")
        listener.submit(LoadModel("again", str(models[0]), draft_model=str(GUIDE)))
        assert "their vocabularies differ" in listener.failed("again").error
        listener.submit(LoadModel("gone", str(models[0]), draft_model=str(models[0] / "gone")))
        assert str(models[0] / "gone") in listener.failed("gone").error
        listener.submit(LoadModel("third", str(models[2]), draft_model=str(models[2])))
        listener.end_of("third")
        assert unloaded(listener.events) == [ModelUnloaded(str(path), "room") for path in models[:2]]


def test_one_that_rested_comes_back_with_its_draft(models: tuple[Path, Path, Path]) -> None:
    with running_engine(EngineSettings(prefill_chunk=64, unload_after=0.1)) as listener:
        listener.load(models[0], draft=models[0])
        first = answered(listener, "first", models[0], "c")
        listener.wait(lambda event: event == ModelUnloaded(str(models[0]), "idle"))
        assert answered(listener, "second", models[0], "d") == first
        assert listener.finished("second").drafted_tokens > 0


def test_without_guessing_there_is_no_draft_model_in_memory(models: tuple[Path, Path, Path]) -> None:
    with running_engine(EngineSettings(speculation=False, kv_bytes=2 * ONE)) as listener:
        ready = listener.load(models[0], draft=models[1])
        assert ready.model.total_pages == 2 * CONTEXT_PAGES
