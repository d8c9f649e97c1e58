"""A model that has no room beside others sends one of them away; it is written, says so, and comes back."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import mlx.core as mx
import pytest

from engine import (
    Cancel,
    EngineSettings,
    Failed,
    Finished,
    LetRest,
    LoadModel,
    LoadProgress,
    ModelReady,
    ModelUnloaded,
    Pin,
    Predict,
    Predicted,
    Share,
    TextChunk,
    UnloadModel,
)
from tests.engine.held_disk import held_writes
from tests.engine.residents.two_models import (
    CONTEXT_PAGES,
    ONE,
    PAGE_BYTES,
    PROMPT,
    ask,
    is_chunk,
    one_at_rest,
    unloaded,
)
from tests.fakes.listener import Listener, running_engine
from tests.fakes.random_model import write_random_model


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
        end, why = listener.finished("long"), "a had to make room for b; open it again"
        assert (end.reason, end.why) == ("cancelled", f"{why} and answer anew")
        new = listener.events[seen:]
        assert unloaded(new) == [ModelUnloaded(str(first), "room")]
        order = [type(event) for event in new if isinstance(event, ModelUnloaded | LoadProgress | ModelReady)]
        assert (order[0], order[1], order[-1]) == (ModelUnloaded, LoadProgress, ModelReady)
        listener.submit(ask("late", first))
        assert (listener.failed("late").kind, listener.failed("late").error) == ("NoModel", why)
        listener.load(first, "first again")
        listener.submit(ask("then", first))
        assert (listener.finished("then").reason, listener.finished("then").why) == ("length", "")


def test_an_answer_says_so_where_its_model_is_loaded_anew(
    listener: Listener, models: tuple[Path, ...]
) -> None:
    first = models[0]
    listener.load(first, "first")
    listener.submit_at(is_chunk("long"), LoadModel("anew", str(first)))
    listener.submit(ask("long", first, 300))
    listener.end_of("anew")
    end = listener.finished("long")
    assert (end.reason, end.why) == ("cancelled", "a was loaded anew meanwhile; answer anew")


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


def test_of_those_that_work_one_goes_alone_where_that_makes_room_enough(
    models: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    first, second, _ = models
    large, other = (
        write_random_model(tmp_path / name, max_position_embeddings=16 * 8 * CONTEXT_PAGES)
        for name in ("large", "other")
    )
    with running_engine(EngineSettings(prefill_chunk=64, kv_bytes=10 * ONE)) as listener:
        for name, model in (("first", first), ("second", second), ("large", large)):
            listener.load(model, name)
        listener.submit_at(is_chunk("in large"), LoadModel("other", str(other)))
        with listener.held():
            listener.submit(ask("in first", first, 300))
            listener.submit(ask("in second", second, 300))
            listener.submit(ask("in large", large, 3000))
        listener.end_of("other")
        assert unloaded(listener.events) == [ModelUnloaded(str(large), "room")]
        assert "large had to make room for other" in listener.finished("in large").why
        for name in ("in first", "in second"):
            assert listener.finished(name).reason == "length"


def test_one_with_a_pinned_chat_stays_before_one_that_was_used_since(
    listener: Listener, models: tuple[Path, Path, Path]
) -> None:
    first, second, third = models
    listener.load(first, "first")
    listener.load(second, "second")
    listener.submit(ask("pinned", first, chat="p"))
    listener.finished("pinned")
    listener.submit(Pin("p", True))
    listener.submit(ask("used", second))
    listener.finished("used")
    listener.load(third, "third")
    assert unloaded(listener.events) == [ModelUnloaded(str(second), "room")]
    listener.submit(ask("again", first, chat="p"))
    assert listener.finished("again").tokens == listener.finished("pinned").tokens
    assert listener.finished("again").timing.prefill_tokens == 1


@pytest.mark.parametrize("is_pinned", [True, False])
def test_who_is_only_asked_about_a_model_that_rests_sends_no_pinned_chat_away(
    models: tuple[Path, Path, Path], *, is_pinned: bool
) -> None:
    first, second, _ = models
    with one_at_rest(first, second) as listener:
        listener.submit(ask("once", second, chat="p"))
        once = listener.finished("once")
        listener.submit(Pin("p", is_pinned))
        listener.submit(Predict(ask("asked", first)))
        told = listener.wait(lambda event: isinstance(event, Predicted | Failed) and event.id == "asked")
        assert isinstance(told, Failed) is is_pinned
        assert (unloaded(listener.events)[1:] == []) is is_pinned
        if is_pinned:
            assert "beside chats that are kept in memory" in listener.failed("asked").error
            listener.submit(ask("again", second, chat="p"))
            assert listener.finished("again").tokens == once.tokens
            assert listener.finished("again").timing.prefill_tokens == 1
        listener.submit(ask("then", first))  # what is asked for is answered
        assert listener.finished("then").tokens


@pytest.mark.parametrize("wrong", [{"n": 99}, {"max_tokens": 0}, {"prompt": "two"}, {"stop": ("",)}])
def test_who_asks_what_no_model_can_answer_wakes_none(
    models: tuple[Path, Path, Path], wrong: dict[str, object]
) -> None:
    first, second, _ = models
    with one_at_rest(first, second) as listener:
        asked = replace(ask("wrong", first), **wrong)  # type: ignore[arg-type]
        listener.submit(asked)
        assert listener.failed("wrong").kind == "InvalidRequest"
        listener.submit(Predict(replace(asked, id="asked")))
        assert listener.failed("asked").kind == "InvalidRequest"
        assert unloaded(listener.events) == [ModelUnloaded(str(first), "idle")]


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
        listener.wait(is_chunk("cut off"))
        listener.submit(UnloadModel(str(first)))
        assert listener.finished("cut off").reason == "cancelled"
        listener.submit(ask("late", first))
        assert "is not loaded" in listener.failed("late").error
        listener.drain()
        for _ in range(20):
            listener.wait(is_chunk("endless"))
        assert not unloaded(listener.events)  # the disk takes nothing, and the other's answer goes on
        may_write.set()
        listener.wait(lambda event: event == ModelUnloaded(str(first)))
        listener.submit(Cancel("endless"))
        assert listener.finished("endless").reason == "cancelled"
        listener.load(first, "first again")
        listener.submit(ask("again", first))
        assert listener.finished("again").tokens == once.tokens
        assert listener.finished("again").timing.cached_tokens == 192


def answered_beside(listener: Listener, first: Path, second: Path) -> Finished:
    """Both are loaded; the first has answered, as is returned, and the second is about it: "goes on"."""
    listener.load(first, "first")
    listener.load(second, "second")
    listener.submit(ask("once", first))
    once = listener.finished("once")
    listener.submit(ask("goes on", second, 300))
    listener.wait(is_chunk("goes on"))
    return once


def test_one_that_was_unloaded_and_has_much_to_write_is_gone_as_asked_before_a_third_is_loaded(
    models: tuple[Path, Path, Path],
    with_disk: Callable[..., EngineSettings],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second, third = models
    may_write = held_writes(monkeypatch)
    with running_engine(with_disk(kv_bytes=2 * ONE)) as listener:
        answered_beside(listener, first, second)
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
        once = answered_beside(listener, first, second)
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


def test_what_asks_nothing_of_a_model_that_rests_ends_no_answer_of_another(
    models: tuple[Path, Path, Path],
) -> None:
    first, second, _ = models
    settings = EngineSettings(prefill_chunk=64, kv_bytes=ONE + PAGE_BYTES, unload_after=0.2)
    with running_engine(settings) as listener:
        listener.load(first, "first")
        listener.wait(lambda event: event == ModelUnloaded(str(first), "idle"))
        listener.load(second, "second")
        with listener.held():
            listener.submit(ask("long", second, 300))
            listener.submit(Predict(ask("asked", first)))
            listener.submit(Share("branch", PROMPT, str(first)))
        assert "beside the answer that b is writing" in listener.failed("asked").error
        assert len(listener.finished("long").tokens) == 300
        assert not [event for event in listener.events if isinstance(event, Failed) and event.id == "first"]
        assert unloaded(listener.events) == [ModelUnloaded(str(first), "idle")]
        listener.submit(Predict(ask("again", first)))  # nobody answers now
        listener.wait(lambda event: isinstance(event, Predicted) and event.id == "again")
        assert unloaded(listener.events)[-1] == ModelUnloaded(str(second), "idle")
        listener.submit(ask("then", first))
        assert listener.finished("then").tokens


@pytest.mark.parametrize("is_share", [False, True])
def test_what_asks_nothing_of_a_model_that_rests_ends_no_answer_that_begins_while_it_makes_room(
    models: tuple[Path, Path, Path],
    with_disk: Callable[..., EngineSettings],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    *,
    is_share: bool,
) -> None:
    """It fits beside the one that answers, in place of two that do not; one of these is asked meanwhile."""
    first, second, _ = models
    resting, works = (
        write_random_model(tmp_path / name, max_position_embeddings=16 * pages)
        for name, pages in (("resting", 2 * CONTEXT_PAGES), ("works", 8 * CONTEXT_PAGES))
    )
    may_write = held_writes(monkeypatch)
    settings = with_disk(kv_bytes=11 * ONE - PAGE_BYTES, unload_after=0.1)
    with running_engine(settings) as listener:
        listener.load(resting, "resting")
        listener.wait(lambda event: event == ModelUnloaded(str(resting), "idle"))
        listener.submit(LetRest(None))
        for name, model in (("works", works), ("first", first), ("second", second)):
            listener.load(model, name)
        listener.submit(ask("to be written", first))
        listener.finished("to be written")
        listener.submit(ask("used later", second))
        listener.finished("used later")
        listener.submit(ask("goes on", works, 3000))
        listener.wait(is_chunk("goes on"))
        listener.submit(Share("b", PROMPT, str(resting)) if is_share else Predict(ask("?", resting)))
        for _ in range(20):
            listener.wait(is_chunk("goes on"))
        listener.submit(ask("begins", second, 250))
        listener.wait(is_chunk("begins"))
        assert not unloaded(listener.events)[1:]
        may_write.set()
        assert len(listener.finished("begins").tokens) == 250
        if not is_share:
            assert "beside the answers that works and b are writing" in listener.failed("?").error
        listener.submit(Cancel("goes on"))
        assert len(listener.finished("goes on").tokens) > 100
        assert unloaded(listener.events)[1:] == [ModelUnloaded(str(first), "idle")]
        assert not [event for event in listener.events if isinstance(event, Failed) and event.id == "resting"]
        listener.submit(ask("then", resting))
        assert listener.finished("then").tokens
