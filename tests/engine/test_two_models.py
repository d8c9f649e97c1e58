"""Several models in memory at once: they take turns, share the budget, and make room for each other."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import mlx.core as mx
import pytest

from engine import (
    Cancel,
    ChatsCached,
    EngineSettings,
    Event,
    Finished,
    Forget,
    Freed,
    Generate,
    Keep,
    LoadModel,
    LoadProgress,
    ModelReady,
    ModelUnloaded,
    Pin,
    Predict,
    Predicted,
    SamplingParams,
    SsdSettings,
    Stats,
    TextChunk,
    UnloadModel,
)
from engine.kv.arena import Arena
from engine.prediction.foresight import Foresight
from tests.engine.cold import Cold
from tests.engine.kv.spilled import owners_in
from tests.engine.watched import restore_always, watch_memory
from tests.fakes.listener import Listener, running_engine
from tests.fakes.random_model import write_random_model

PROMPT = tuple(3 + (7 * place) % 290 for place in range(200))
CONTEXT_PAGES = 32
PAGE_BYTES = 12_288
ONE = CONTEXT_PAGES * PAGE_BYTES
"""Bytes of a chat of the whole context."""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """Three models of the same shape with other weights."""
    folder = tmp_path_factory.mktemp("models")
    return tuple(
        write_random_model(folder / name, seed=seed, max_position_embeddings=512)
        for seed, name in enumerate("abc")
    )  # type: ignore[return-value]


@pytest.fixture
def listener() -> Iterator[Listener]:
    """An engine with room for a chat of the whole context on two models, and on no third."""
    with running_engine(EngineSettings(prefill_chunk=64, kv_bytes=2 * ONE)) as listener:
        yield listener


@pytest.fixture
def with_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., EngineSettings]:
    """Settings with an SSD cache, from which everything is read back."""
    restore_always(monkeypatch)
    ssd = SsdSettings(tmp_path / "kv", cap_bytes=64 << 20, floor_bytes=0)

    def settings(**more: object) -> EngineSettings:
        return EngineSettings(ssd=ssd, prefill_chunk=64, cache=tmp_path / "cache", **more)  # type: ignore[arg-type]

    return settings


def ask(
    name: str, model: Path | None, answer: int = 8, chat: str = "c", prompt: tuple[int, ...] = PROMPT
) -> Generate:
    greedy = SamplingParams(temperature=0)
    path = str(model) if model else ""
    return Generate(
        name, tokens=prompt, max_tokens=answer, sampling=greedy, ignore_eos=True, chat=chat, model=path
    )


def unloaded(events: list[Event]) -> list[ModelUnloaded]:
    return [event for event in events if isinstance(event, ModelUnloaded)]


def pages_of(listener: Listener, model: Path) -> int:
    """The pages that the model may have, as it told last."""
    told = [
        event.total_pages
        for event in listener.drain()
        if isinstance(event, Stats) and event.model == str(model)
    ]
    return told[-1]


def test_two_models_answer_at_once_each_as_it_does_alone(
    listener: Listener, models: tuple[Path, Path, Path]
) -> None:
    first, second, _ = models
    listener.load(first, "first")
    listener.load(second, "second")
    assert not unloaded(listener.events)
    for number in range(2):
        for name, model in (("a", first), ("b", second)):
            listener.submit(ask(f"{name}{number}", model, 20, prompt=PROMPT[number:]))
    for number in range(2):
        for name, model in (("a", first), ("b", second)):
            end = listener.finished(f"{name}{number}")
            assert Cold(model).accepts(end.prompt_tokens, end.tokens)
    assert listener.finished("a0").tokens != listener.finished("b0").tokens


def test_a_request_without_a_name_is_for_the_newest_model(
    listener: Listener, models: tuple[Path, Path, Path]
) -> None:
    first, second, third = models
    listener.load(first, "first")
    listener.load(second, "second")
    for name, model in (("named", second), ("newest", None), ("other", first)):
        listener.submit(ask(name, model))
    newest = listener.finished("newest").tokens
    assert newest == listener.finished("named").tokens != listener.finished("other").tokens
    listener.submit(UnloadModel())
    listener.submit(ask("left", None))
    assert listener.finished("left").tokens == listener.finished("other").tokens
    listener.submit(ask("nowhere", third))
    assert listener.failed("nowhere").error == "c is not loaded; open it first"


def test_they_take_turns_a_step_each(models: tuple[Path, Path, Path]) -> None:
    first, second, _ = models
    steps = dict[str, int]()
    apart: list[int] = []
    with running_engine(EngineSettings(kv_bytes=2 * ONE, speculation=False)) as listener:
        listener.load(first, "first")
        listener.load(second, "second")
        with listener.held():
            for number in range(3):  # many answers on one model do not hold up the one on the other
                listener.submit(ask(f"a{number}", first, 80, prompt=PROMPT[:20]))
            listener.submit(ask("b", second, 80, prompt=PROMPT[:20]))
        while len(steps) < 2 or max(steps.values()) < 70:
            event = listener.wait(lambda event: isinstance(event, TextChunk))
            assert isinstance(event, TextChunk)
            if event.id in ("a0", "b"):
                steps[event.id] = event.generated_tokens
                if len(steps) == 2:
                    apart.append(abs(steps["a0"] - steps["b"]))
    assert len(apart) > 40
    assert (
        max(apart[10:]) <= 24
    )  # the others' prompts come first, and text is told when its last byte is there


def foretold(listener: Listener, command: Generate) -> float | None:
    listener.submit(Predict(command))
    predicted = listener.wait(lambda event: isinstance(event, Predicted))
    assert isinstance(predicted, Predicted)
    return predicted.seconds


def test_while_another_works_no_time_is_foretold_and_none_learned(
    listener: Listener, models: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    taught = list[int]()
    answered = Foresight.answered

    def noted(self: Foresight, new: int, cached: int, steps: int, seconds: float) -> None:
        taught.append(new)
        answered(self, new, cached, steps, seconds)

    monkeypatch.setattr(Foresight, "answered", noted)
    first, second, _ = models
    listener.load(first, "first")
    listener.load(second, "second")
    prompts = [PROMPT[number : number + 150 - number] for number in range(5)]
    for number in range(3):
        listener.submit(ask(f"alone {number}", second, prompt=prompts[number]))
        listener.finished(f"alone {number}")
    taught.clear()
    assert foretold(listener, ask("p", second, prompt=prompts[3])) is not None
    listener.submit(ask("endless", first, 300))
    listener.wait(lambda event: isinstance(event, TextChunk) and event.id == "endless")
    assert foretold(listener, ask("q", second, prompt=prompts[3])) is None
    listener.submit(ask("beside", second, prompt=prompts[3]))
    listener.finished("beside")
    listener.submit(Cancel("endless"))
    listener.finished("endless")
    assert taught == [len(PROMPT)]  # what "endless" took before the other came
    assert foretold(listener, ask("r", second, prompt=prompts[4])) is not None
    listener.submit(ask("alone", second, prompt=prompts[4]))
    listener.finished("alone")
    assert taught[1:] == [len(prompts[4])]


def test_who_waits_while_another_is_loaded_teaches_nothing(
    listener: Listener, models: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    taught = list[int]()
    monkeypatch.setattr(Foresight, "answered", lambda self, new, *_: taught.append(new))  # pyright: ignore
    first, second, _ = models
    listener.load(first, "first")
    with listener.held():
        listener.submit(ask("waits", first))
        listener.submit(LoadModel("second", str(second)))
    listener.finished("waits")
    assert not taught
    listener.submit(ask("alone", first, prompt=PROMPT[1:]))
    listener.finished("alone")
    assert taught


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
    listener.submit_at(
        lambda event: isinstance(event, Finished) and event.id == "used", LoadModel("third", str(third))
    )
    with listener.held():
        listener.submit(LoadModel("second", str(second)))
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


def test_one_that_cannot_be_loaded_anew_leaves_the_other_the_whole_budget(
    listener: Listener, models: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    second = tmp_path / "second"
    shutil.copytree(models[1], second)
    listener.load(models[0], "first")
    listener.load(second, "second")
    (second / "config.json").unlink()
    listener.submit(LoadModel("again", str(second)))
    listener.failed("again")
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


def test_a_chat_is_told_of_and_forgotten_on_every_model(
    models: tuple[Path, Path, Path], with_disk: Callable[..., EngineSettings]
) -> None:
    first, second, _ = models
    with running_engine(with_disk()) as listener:
        for name, model in (("a", first), ("b", second)):
            listener.load(model, f"load-{name}")
            listener.submit(ask(name, model))
            listener.finished(name)
        told = listener.wait(lambda event: isinstance(event, ChatsCached))
        assert isinstance(told, ChatsCached)
        assert told.chats["c"].memory_bytes == 2 * 13 * PAGE_BYTES
        listener.submit(Predict(ask("p", first)))
        predicted = listener.wait(lambda event: isinstance(event, Predicted))
        assert isinstance(predicted, Predicted)
        assert predicted.cached_tokens == 199
        listener.submit(Forget("c"))
        told = listener.wait(lambda event: isinstance(event, ChatsCached) and not event.chats)
        listener.submit(Predict(ask("q", first)))
        predicted = listener.wait(lambda event: isinstance(event, Predicted))
        assert isinstance(predicted, Predicted)
        assert predicted.cached_tokens + predicted.restored_tokens == 0


@pytest.mark.usefixtures("forgotten_on_the_spot")
def test_what_an_unloaded_model_wrote_of_a_chat_is_forgotten_beside_another(
    models: tuple[Path, Path, Path], with_disk: Callable[..., EngineSettings], tmp_path: Path
) -> None:
    first, second, _ = models
    with running_engine(with_disk()) as listener:
        listener.load(first, "first")
        listener.load(second, "second")
        for name, model in (("mine", first), ("secret", second)):
            listener.submit(ask(name, model, chat=name))
            listener.finished(name)
        listener.submit(UnloadModel(str(second)))  # whose pages are written then
        listener.wait(lambda event: isinstance(event, ModelUnloaded))
        assert "secret" in owners_in(tmp_path / "kv")
        listener.submit(Forget("secret"))
        listener.submit(Predict(ask("p", first)))
        listener.wait(lambda event: isinstance(event, Predicted))
        assert "secret" not in owners_in(tmp_path / "kv")
    assert owners_in(tmp_path / "kv") == {"mine"}


def test_of_several_answers_one_is_kept_on_the_model_that_wrote_them(
    listener: Listener, models: tuple[Path, Path, Path]
) -> None:
    first, second, third = models
    listener.load(first, "first")
    listener.load(second, "second")
    several = Generate(
        "a",
        tokens=PROMPT,
        max_tokens=40,
        ignore_eos=True,
        chat="c",
        n=2,
        sampling=SamplingParams(temperature=1.5, seed=1),
        model=str(first),
    )
    listener.submit(several)
    end = listener.finished("a")
    branches = [(*PROMPT, *sample) for sample in (end.tokens, end.others[0].tokens)]
    for model, pages in ((second, 0), (third, 0), (first, 3)):
        listener.submit(Keep("c", branches[0], (branches[1],), str(model)))
        freed = listener.wait(lambda event: isinstance(event, Freed))
        assert freed == Freed("c", pages, pages * PAGE_BYTES)


def flood(listener: Listener, model: Path) -> None:
    """Have the model compute more than it has pages for."""
    for number in range(4):
        name, prompt = f"{model.name}{number}", tuple((token + number) % 290 + 3 for token in PROMPT)
        listener.submit(ask(name, model, chat=name, prompt=prompt))
        listener.finished(name)


def test_an_arena_with_pinned_pages_is_not_made_smaller(
    listener: Listener, models: tuple[Path, Path, Path]
) -> None:
    first, second, _ = models
    listener.load(first, "first")
    listener.submit(Pin("a3", True))
    flood(listener, first)
    listener.load(second, "second")
    assert unloaded(listener.events) == [ModelUnloaded(str(first), "room")]


def test_pins_hold_on_every_model(listener: Listener, models: tuple[Path, Path, Path]) -> None:
    for model in models[:2]:
        listener.load(model, model.name)
    listener.submit(Pin("c", True))
    for model in models[:2]:
        listener.submit(ask(f"pinned {model.name}", model))
        flood(listener, model)
    for model in models[:2]:
        listener.submit(Predict(ask(f"predict {model.name}", model)))
        predicted = listener.wait(lambda event: isinstance(event, Predicted))
        assert isinstance(predicted, Predicted)
        assert predicted.cached_tokens == 199


def test_the_same_model_is_loaded_anew(listener: Listener, models: tuple[Path, Path, Path]) -> None:
    first, second, _ = models
    listener.load(first, "first")
    listener.load(second, "second")
    listener.submit(LoadModel("anew", str(first), context=256))
    anew = listener.end_of("anew")
    assert isinstance(anew, ModelReady)
    assert anew.model.context_length == 256
    assert unloaded(listener.events) == [ModelUnloaded(str(first), "asked")]
    listener.submit(ask("b", second))
    assert listener.finished("b").tokens
