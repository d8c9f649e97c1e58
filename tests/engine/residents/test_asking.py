"""A request for a model that has no room waits until others have answered; no answer ends for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import pytest

from engine import (
    Cancel,
    EngineSettings,
    Event,
    Failed,
    Finished,
    Forget,
    Generate,
    LetRest,
    LoadModel,
    ModelUnloaded,
    Predict,
    Predicted,
    ProfileStep,
    SampleEnded,
    Stats,
    UnloadModel,
    Waiting,
)
from tests.engine.cold import Cold
from tests.engine.held_disk import held_writes
from tests.engine.residents.two_models import ONE, PAGE_BYTES, PROMPT, ask, is_chunk, one_at_rest, unloaded
from tests.fakes.listener import Listener, running_engine


@pytest.fixture
def works(models: tuple[Path, Path, Path]) -> Iterator[Listener]:
    """Room for one of two models: the first rests, and the second is about an answer, "goes on"."""
    first, second, _ = models
    with one_at_rest(first, second) as listener:
        listener.submit(ask("goes on", second, 300, chat="s"))
        listener.wait(is_chunk("goes on"))
        yield listener


def ends(listener: Listener) -> list[str]:
    return [event.id for event in listener.drain() if isinstance(event, Finished | Failed)]


def waits(listener: Listener, name: str) -> Waiting:
    event = listener.wait(lambda event: isinstance(event, Waiting) and event.id == name)
    assert isinstance(event, Waiting)
    return event


def test_it_says_so_and_both_are_answered(works: Listener, models: tuple[Path, ...]) -> None:
    first, second, _ = models
    works.submit(ask("woke it", first))
    assert waits(works, "woke it").why == "a has no room beside the answer that b is writing"
    before, after = works.finished("goes on"), works.finished("woke it")
    assert (before.reason, len(before.tokens), before.why) == ("length", 300, "")
    assert ends(works) == ["goes on", "woke it"]
    for model, end in ((second, before), (first, after)):
        assert Cold(model).accepts(end.prompt_tokens, end.tokens)
    assert unloaded(works.events)[1:] == [ModelUnloaded(str(second), "idle")]
    works.submit(ask("again", second, chat="s"))  # it rests, and comes back
    assert works.finished("again").tokens == before.tokens[:8]


def test_all_that_wait_are_counted_behind_the_answer_that_they_wait_for(
    works: Listener, models: tuple[Path, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.stats.INTERVAL", 0.0)  # each step is told
    first, second, _ = models

    def told(waiting: int) -> Callable[[Event], bool]:
        return lambda event: isinstance(event, Stats) and event.queued == waiting

    works.submit_at(told(2), Cancel("later"))
    works.submit_at(told(1), Cancel("woke it"))
    with works.held():
        works.submit(ask("woke it", first))
        works.submit(ask("later", second))
    works.finished("goes on")
    works.submit(ask("last", first))
    works.finished("last")
    stats = [event for event in works.drain() if isinstance(event, Stats)]
    beside = [event.queued for event in stats if event.active_id == "goes on"]
    assert [waiting for waiting, _ in groupby(beside)] == [0, 2, 1, 0]
    assert {event.model for event in stats if event.queued} == {str(second)}
    assert not any(event.queued for event in stats if not event.running)


def test_who_comes_later_does_not_keep_it_waiting(works: Listener, models: tuple[Path, ...]) -> None:
    first, second, _ = models
    works.submit(ask("woke it", first))
    works.submit(ask("later", second))
    assert waits(works, "later").why == "a request for a comes first"
    works.submit(replace(ask("a person's", second), lane="window"))
    for name in ("goes on", "a person's", "woke it", "later"):
        assert works.finished(name).reason == "length"
    order = [name for name in ends(works) if name != "goes on"]
    assert order == ["a person's", "woke it", "later"]


def test_nothing_is_profiled_while_it_waits(works: Listener, models: tuple[Path, ...]) -> None:
    """Its model is loaded next, and the profile would hold pages of one that has to go."""
    works.submit(ask("woke it", models[0]))
    waits(works, "woke it")
    at_end = ProfileStep("profile", str(models[1]))
    works.submit_at(lambda event: isinstance(event, Finished) and event.id == "goes on", at_end)
    assert works.finished("woke it").reason == "length"
    assert "a request runs" in works.failed("profile").error
    assert unloaded(works.events)[1:] == [ModelUnloaded(str(models[1]), "idle")]


def test_one_that_is_cancelled_ends_at_once_and_wakes_nobody(
    works: Listener, models: tuple[Path, ...]
) -> None:
    first, second, _ = models
    works.submit(ask("woke it", first))
    works.submit(ask("later", second))
    waits(works, "later")
    for _ in range(2):
        works.submit(Cancel("woke it"))
    assert works.finished("woke it").tokens == ()
    assert works.finished("later").reason == "length"
    assert len(works.finished("goes on").tokens) == 300
    assert unloaded(works.events) == [ModelUnloaded(str(first), "idle")]
    assert ends(works).count("woke it") == 1


def test_an_answer_of_it_that_is_cancelled_is_no_more_wanted_when_it_begins(
    works: Listener, models: tuple[Path, ...]
) -> None:
    works.submit(replace(ask("woke it", models[0], 20), n=2))
    works.submit(replace(ask("not wanted", models[0], 20), n=2))
    waits(works, "not wanted")
    works.submit(Cancel("woke it", sample=1))
    for sample in (0, 1):
        works.submit(Cancel("not wanted", sample=sample))
    assert works.finished("not wanted").reason == "cancelled"
    end = works.finished("woke it")
    assert (end.reason, len(end.tokens)) == ("length", 20)
    assert [(other.reason, len(other.tokens) < 3) for other in end.others] == [("cancelled", True)]
    assert SampleEnded("woke it", 1, "cancelled", "max_tokens") in works.events


def test_of_a_chat_that_is_deleted_meanwhile_nothing_is_kept(
    works: Listener, models: tuple[Path, ...]
) -> None:
    first = models[0]
    works.submit(ask("woke it", first, chat="deleted"))
    waits(works, "woke it")
    works.submit(Forget("deleted"))
    assert works.finished("woke it").reason == "length"
    works.submit(Predict(ask("?", first)))
    found = works.wait(lambda event: isinstance(event, Predicted))
    assert isinstance(found, Predicted)
    assert found.cached_tokens == 0


@pytest.mark.parametrize("is_cancelled", [True, False])
def test_who_is_put_away_for_it_stays_where_nobody_wants_it_any_more(
    models: tuple[Path, Path, Path],
    with_disk: Callable[..., EngineSettings],
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_cancelled: bool,
) -> None:
    """What the first has is written between the second's tokens, and is asked for meanwhile."""
    first, second, third = models
    may_write = held_writes(monkeypatch)
    with running_engine(with_disk(kv_bytes=2 * ONE, unload_after=0.1)) as listener:
        listener.load(third, "third")
        listener.wait(lambda event: event == ModelUnloaded(str(third), "idle"))
        listener.submit(LetRest(None))
        listener.load(first, "first")
        listener.load(second, "second")
        listener.submit(ask("once", first))
        once = listener.finished("once")
        listener.submit(ask("goes on", second, 300, chat="s"))
        listener.wait(is_chunk("goes on"))
        listener.submit(ask("woke it", third))
        for _ in range(20):
            listener.wait(is_chunk("goes on"))
        listener.submit(ask("again", first))
        if is_cancelled:
            listener.submit(Cancel("woke it"))
            assert listener.finished("woke it").reason == "cancelled"
            assert listener.finished("again").timing.prefill_tokens == 1
            assert len(unloaded(listener.events)) == 1
        may_write.set()
        assert listener.finished("again").tokens == once.tokens
        assert len(listener.finished("goes on").tokens) == 300
        assert listener.finished("woke it").reason == ("cancelled" if is_cancelled else "length")


def test_it_ends_where_its_model_is_unloaded(works: Listener, models: tuple[Path, ...]) -> None:
    first, second, _ = models
    works.submit(ask("woke it", first))
    waits(works, "woke it")
    works.submit(UnloadModel(str(first)))
    assert works.finished("woke it").reason == "cancelled"
    assert len(works.finished("goes on").tokens) == 300
    works.submit(ask("then", second))
    assert works.finished("then").reason == "length"


def test_it_begins_where_its_model_is_opened_by_name(works: Listener, models: tuple[Path, ...]) -> None:
    first = models[0]
    works.submit(ask("woke it", first))
    waits(works, "woke it")
    works.submit(LoadModel("opened", str(first)))
    end = works.finished("goes on")
    assert (end.reason, end.why) == ("cancelled", "b had to make room for a; open it again and answer anew")
    assert works.finished("woke it").reason == "length"


def test_it_hears_why_its_model_is_gone(works: Listener, models: tuple[Path, ...]) -> None:
    first, second, third = models
    works.submit(ask("woke it", first))
    waits(works, "woke it")
    works.submit(ask("behind", second))
    waits(works, "behind")
    with works.held():
        works.submit(LoadModel("third", str(third)))  # in the second's place
        works.submit(ask("then", third, 300))
        works.submit(UnloadModel(str(first)))
    assert works.finished("woke it").reason == "cancelled"
    assert works.failed("behind").error == "b had to make room for c; open it again"
    assert works.finished("goes on").why == "b had to make room for c; open it again and answer anew"
    works.submit(Cancel("then"))
    assert works.finished("then").reason in ("cancelled", "length")


def test_it_fails_alone_where_its_model_has_been_damaged_meanwhile(
    works: Listener, models: tuple[Path, ...]
) -> None:
    first, second, _ = models
    config = first / "config.json"
    whole = config.read_text()
    works.submit(ask("woke it", first))
    waits(works, "woke it")
    works.submit(ask("too long", second, prompt=PROMPT * 3))
    works.submit(ask("behind", second))
    try:
        config.write_text("{")
        assert works.finished("goes on").reason == "length"
        assert str(config) in works.failed("woke it").error
    finally:
        config.write_text(whole)
    assert "shorten it" in works.failed("too long").error
    assert works.finished("behind").reason == "length"


def test_the_engine_s_end_ends_it(models: tuple[Path, ...]) -> None:
    first, second, _ = models
    settings = EngineSettings(prefill_chunk=64, kv_bytes=ONE + PAGE_BYTES, unload_after=0.2)
    listener = Listener(settings)
    listener.load(first, "first")
    listener.wait(lambda event: event == ModelUnloaded(str(first), "idle"))
    listener.submit(LetRest(None))
    listener.load(second, "second")
    requests: list[Generate] = [ask("goes on", second, 300), ask("woke it", first), ask("later", second)]
    for request in requests:
        listener.submit(request)
        if request.id != "goes on":
            waits(listener, request.id)
    assert listener.engine.close(60)
    assert sorted(ends(listener)) == sorted(request.id for request in requests)
    for request in requests:
        assert listener.finished(request.id).reason == "cancelled"
