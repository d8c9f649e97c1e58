"""Several models in memory share the budget of KV pages, make room for each other, and come back."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import mlx.core as mx
import pytest

from engine import (
    Cancel,
    EngineSettings,
    Finished,
    LoadModel,
    LoadProgress,
    ModelReady,
    ModelUnloaded,
    Stats,
    TextChunk,
    UnloadModel,
)
from engine.kv.arena import Arena
from tests.engine.held_disk import held_writes
from tests.engine.residents.two_models import CONTEXT_PAGES, ONE, PAGE_BYTES, PROMPT, ask, pages_of, unloaded
from tests.engine.watched import watch_memory
from tests.fakes.listener import Listener, running_engine
from tests.fakes.random_model import write_random_model


def test_the_arenas_together_keep_to_the_budget(
    models: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    arenas: list[Arena] = []
    most = 0
    reserve = Arena.reserve

    def reserve_and_note(arena: Arena, pages: int, limit: int) -> None:
        nonlocal most
        if arena not in arenas:
            arenas.append(arena)
        reserve(arena, pages, limit)
        most = max(most, sum(other.pages * other.page_bytes for other in arenas))

    monkeypatch.setattr(Arena, "reserve", reserve_and_note)
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
    assert len(arenas) == 2
    assert budget * 0.8 < most <= budget


def test_one_that_does_not_fit_beside_it_sends_the_first_away_and_says_so(
    models: tuple[Path, Path, Path],
) -> None:
    first, second, _ = models
    with running_engine(EngineSettings(prefill_chunk=64, kv_bytes=2 * ONE - 1)) as listener:
        listener.load(first, "first")
        seen = len(listener.events)
        listener.submit_at(lambda event: isinstance(event, TextChunk), LoadModel("second", str(second)))
        listener.submit(ask("long", first, 300))
        listener.end_of("second")
        assert listener.finished("long").reason == "cancelled"
        new = listener.events[seen:]
        assert unloaded(new) == [ModelUnloaded(str(first), "room")]
        order = [type(event) for event in new if isinstance(event, ModelUnloaded | LoadProgress | ModelReady)]
        assert (order[0], order[1], order[-1]) == (ModelUnloaded, LoadProgress, ModelReady)
        listener.submit(ask("late", first))
        assert listener.failed("late").kind == "NoModel"


def test_a_shorter_context_of_its_own_lets_both_stay(models: tuple[Path, Path, Path]) -> None:
    first, second, _ = models
    with running_engine(EngineSettings(prefill_chunk=64, kv_bytes=ONE + ONE // 4)) as listener:
        listener.load(first, "first")
        listener.submit(LoadModel("second", str(second), context=128))
        second_ready = listener.end_of("second")
        assert isinstance(second_ready, ModelReady)
        assert not unloaded(listener.events)
        assert (second_ready.model.total_pages, pages_of(listener, first)) == (8, CONTEXT_PAGES)


def test_of_several_the_least_recently_used_goes(listener: Listener, models: tuple[Path, Path, Path]) -> None:
    first, second, third = models
    listener.load(first, "first")
    listener.load(second, "second")
    listener.submit(ask("used", first))
    listener.finished("used")
    listener.load(third, "third")
    assert unloaded(listener.events) == [ModelUnloaded(str(second), "room")]
    listener.submit(ask("again", first))
    assert listener.finished("again").tokens == listener.finished("used").tokens


def test_one_that_works_stays_before_one_that_does_not(
    listener: Listener, models: tuple[Path, Path, Path]
) -> None:
    first, second, third = models
    listener.load(first, "first")
    listener.load(second, "second")
    listener.submit_at(
        lambda event: isinstance(event, Finished) and event.id == "used", LoadModel("third", str(third))
    )
    with listener.held():
        listener.submit(ask("long", first, 300))
        listener.submit(ask("used", second))
    listener.end_of("third")
    assert unloaded(listener.events) == [ModelUnloaded(str(second), "room")]
    listener.submit(Cancel("long"))
    assert listener.finished("long").tokens


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


def test_unloading_one_that_has_much_to_write_holds_up_no_answer_of_another(
    models: tuple[Path, Path, Path],
    with_disk: Callable[..., EngineSettings],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    first, second = models[0], write_random_model(tmp_path / "second", max_position_embeddings=1 << 17)
    may_write = held_writes(monkeypatch)
    with running_engine(with_disk()) as listener:
        listener.load(first, "first")
        listener.load(second, "second")
        listener.submit(ask("once", first))
        once = listener.finished("once")
        with listener.held():
            listener.submit(ask("endless", second, 1 << 16))
            listener.submit(ask("cut off", first, 300, chat="d"))
        listener.wait(lambda event: isinstance(event, TextChunk) and event.id == "cut off")
        listener.submit(UnloadModel(str(first)))
        assert listener.finished("cut off").reason == "cancelled"
        listener.submit(ask("late", first))
        assert "is not loaded" in listener.failed("late").error
        listener.drain()
        for _ in range(20):
            listener.wait(lambda event: isinstance(event, TextChunk) and event.id == "endless")
        assert not unloaded(listener.events)  # the disk takes nothing, and the other's answer goes on
        may_write.set()
        listener.wait(lambda event: event == ModelUnloaded(str(first)))
        listener.submit(Cancel("endless"))
        assert listener.finished("endless").reason == "cancelled"
        listener.load(first, "first again")
        listener.submit(ask("again", first))
        assert listener.finished("again").tokens == once.tokens
        assert listener.finished("again").timing.cached_tokens == 192


def test_one_that_was_unloaded_and_has_much_to_write_is_gone_as_asked_before_a_third_is_loaded(
    models: tuple[Path, Path, Path],
    with_disk: Callable[..., EngineSettings],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second, third = models
    may_write = held_writes(monkeypatch)
    with running_engine(with_disk(kv_bytes=2 * ONE)) as listener:
        listener.load(first, "first")
        listener.load(second, "second")
        listener.submit(ask("once", first))
        listener.finished("once")
        listener.submit(ask("goes on", second, 300))
        listener.wait(lambda event: isinstance(event, TextChunk) and event.id == "goes on")
        listener.submit(UnloadModel(str(first)))
        listener.submit(LoadModel("third", str(third)))
        listener.finished("goes on")
        may_write.set()
        assert isinstance(listener.end_of("third"), ModelReady)
        assert unloaded(listener.events) == [ModelUnloaded(str(first), "asked")]


@pytest.mark.parametrize("loaded", [2, 0])
def test_who_has_much_to_write_and_makes_room_holds_up_no_answer_of_another(
    loaded: int,
    models: tuple[Path, Path, Path],
    with_disk: Callable[..., EngineSettings],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """For a third model, or because it is loaded anew itself."""
    first, second = models[0], write_random_model(tmp_path / "second", max_position_embeddings=512)
    may_write = held_writes(monkeypatch)
    with running_engine(with_disk(kv_bytes=2 * ONE)) as listener:
        listener.load(first, "first")
        listener.load(second, "second")
        listener.submit(ask("once", first))
        once = listener.finished("once")
        listener.submit(ask("goes on", second, 300))
        listener.wait(lambda event: isinstance(event, TextChunk) and event.id == "goes on")
        listener.submit(LoadModel("next", str(models[loaded])))
        assert listener.finished("goes on").reason == "length"
        assert not unloaded(listener.events)  # the disk takes nothing, and the other's answer goes on
        may_write.set()
        listener.wait(lambda event: event == ModelUnloaded(str(first), "room" if loaded else "asked"))
        listener.end_of("next")
        listener.load(first, "first again")
        listener.submit(ask("again", first))
        assert listener.finished("again").tokens == once.tokens
        assert listener.finished("again").timing.cached_tokens == 192


@pytest.mark.usefixtures("settled_memory")
def test_unloading_one_frees_its_memory(listener: Listener, models: tuple[Path, Path, Path]) -> None:
    first, second, _ = models
    before = mx.get_active_memory()

    def loaded(path: Path, name: str) -> tuple[int, int]:
        """Bytes of its weights, and of all that is in memory since the test began."""
        weights = listener.load(path, name).model.weight_bytes
        return weights, mx.get_active_memory() - before

    def unload(path: Path) -> None:
        listener.submit(UnloadModel(str(path)))
        listener.wait(lambda event: event == ModelUnloaded(str(path)))

    weights, alone = loaded(second, "second alone")
    unload(second)
    loaded(first, "first")
    assert loaded(second, "second")[1] >= 2 * weights
    unload(first)
    assert weights <= mx.get_active_memory() - before < alone + 0.2 * weights


def test_a_load_that_fails_changes_nothing_for_the_others(
    listener: Listener, models: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    first = models[0]
    listener.load(first, "first")
    broken = write_random_model(tmp_path / "broken", seed=4)
    tensors = broken / "model.safetensors"
    tensors.write_bytes(tensors.read_bytes()[:-100])
    listener.submit(LoadModel("broken", str(broken)))
    assert "broken" in listener.failed("broken").error
    tensors.unlink()
    listener.submit(LoadModel("gone", str(broken)))
    listener.failed("gone")
    assert not unloaded(listener.events)
    listener.submit(ask("a", None))
    assert listener.finished("a").tokens
    assert pages_of(listener, first) == 2 * CONTEXT_PAGES


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"context": 0}, "context is 0"),
        ({"kv_bits": 3}, "kv_bits is 3"),
        ({"kv_bits": 8}, "its heads have 8 elements"),
    ],
)
def test_settings_that_make_no_sense_unload_nothing(
    wrong: dict[str, int], error: str, listener: Listener, models: tuple[Path, Path, Path]
) -> None:
    listener.load(models[0], "first")
    listener.submit(LoadModel("again", str(models[0]), **wrong))
    assert error in listener.failed("again").error
    assert not unloaded(listener.events)
    listener.submit(ask("a", models[0]))
    assert listener.finished("a").tokens


def test_one_whose_files_are_damaged_by_now_stays_as_it_is(listener: Listener, tmp_path: Path) -> None:
    model = write_random_model(tmp_path / "m", max_position_embeddings=512)
    listener.load(model, "first")
    (model / "tokenizer.model").unlink()
    listener.submit(LoadModel("again", str(model)))
    assert "tokenizer" in listener.failed("again").error
    assert not unloaded(listener.events)
    listener.submit(ask("a", model))
    assert listener.finished("a").tokens


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


def test_an_arena_that_is_in_use_is_left_as_it_is(models: tuple[Path, Path, Path]) -> None:
    first, second, _ = models
    with running_engine(EngineSettings(prefill_chunk=64, kv_bytes=2 * ONE)) as listener:
        listener.load(first, "first")
        listener.submit_at(
            lambda event: isinstance(event, TextChunk) and event.id == "a2", LoadModel("second", str(second))
        )
        with listener.held():
            for number in range(3):
                listener.submit(ask(f"a{number}", first, 300, chat=f"a{number}", prompt=PROMPT[number:]))
        listener.end_of("second")
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
        listener.load(first, "first")
        listener.submit_at(
            lambda event: isinstance(event, TextChunk) and event.id == "a1", LoadModel("second", str(second))
        )
        with listener.held():
            for number in range(2):
                listener.submit(ask(f"a{number}", first, 300, chat=f"a{number}", prompt=PROMPT[number:]))
        ready = listener.end_of("second")
        assert isinstance(ready, ModelReady)
        assert ready.model.total_pages < half
        told: dict[str, int] = {}
        while told != {str(first): half, str(second): half}:
            stats = listener.wait(lambda event: isinstance(event, Stats))
            assert isinstance(stats, Stats)
            told[stats.model] = stats.total_pages
        assert not unloaded(listener.events)


def test_one_leaves_while_the_other_works_and_comes_back_beside_it(
    models: tuple[Path, Path, Path], with_disk: Callable[..., EngineSettings], tmp_path: Path
) -> None:
    first, second = write_random_model(tmp_path / "first", max_position_embeddings=1 << 17), models[1]
    with running_engine(with_disk(unload_after=0.3)) as listener:
        listener.submit_at(
            lambda event: isinstance(event, TextChunk), LoadModel("second", str(second)), ask("once", second)
        )
        with listener.held():
            listener.submit(LoadModel("first", str(first)))
            listener.submit(ask("endless", first, 1 << 16))
        once = listener.finished("once")
        if not unloaded(listener.events):
            listener.wait(lambda event: isinstance(event, ModelUnloaded))
        assert unloaded(listener.events) == [ModelUnloaded(str(second), "idle")]
        seen = len(listener.events)
        for name, model in (("again", second), ("beside", first)):
            listener.submit(ask(name, model))
        assert listener.finished("again").tokens == once.tokens
        assert listener.finished("again").timing.cached_tokens == 192
        listener.finished("beside")
        listener.submit(Cancel("endless"))
        assert listener.finished("endless").reason == "cancelled"
        ready = [event for event in listener.events[seen:] if isinstance(event, ModelReady)]
        assert ready[0].id == "second"


def test_a_model_that_cannot_come_back_leaves_the_other_alone(
    with_disk: Callable[..., EngineSettings], tmp_path: Path
) -> None:
    first, second = (write_random_model(tmp_path / name, seed=seed) for seed, name in enumerate("xy"))
    with running_engine(with_disk(unload_after=0.2)) as listener:
        listener.load(first, "first")
        listener.load(second, "second")
        while len(unloaded(listener.events)) < 2:
            listener.wait(lambda event: isinstance(event, ModelUnloaded))
        shutil.rmtree(first)
        listener.submit(ask("b", second))
        listener.submit(ask("a", first))
        assert str(first) in listener.failed("a").error
        assert listener.finished("b").tokens
