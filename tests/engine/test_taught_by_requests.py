"""Which requests teach what a first token costs, by which clock, and when what they taught is forgotten."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.kv.pool_memory import PoolMemory
from engine.prediction.foresight import Foresight
from engine.prediction.prediction import Rates
from engine.rest.tidying import FREE_AFTER
from tests.engine.served_model import PROMPT, Model, long_prompt
from tests.engine.watched import restore_always

LESSON = tuple[str, int, float]
"""What kind of lesson, of how many tokens computed, and the seconds."""


@pytest.fixture
def lessons(monkeypatch: pytest.MonkeyPatch) -> list[LESSON]:
    taught = list[LESSON]()

    def answered(_: Foresight, new: int, cached: int, steps: int, seconds: float) -> None:
        taught.append(("answered", new, seconds))

    def returned(_: Foresight, restored: int, new: int, cached: int, steps: int, seconds: float) -> None:
        taught.append(("returned", new, seconds))

    monkeypatch.setattr(Foresight, "answered", answered)
    monkeypatch.setattr(Foresight, "returned", returned)
    return taught


def stored(folder: Path) -> None:
    """A chat on SSD, of a process that is gone."""
    model = Model(folder, folder / "kv")
    model.ask("first", PROMPT, chat="chat")
    model.rest(FREE_AFTER)
    model.serving.close()


def finish(model: Model) -> None:
    while model.serving.busy:
        model.serving.work()


def test_what_prompts_take_with_quantised_kv_memory_is_learned_apart(tmp_path: Path) -> None:
    """Of the guide, on a CPU, three tokens behind 3,000 cached ones take 2.3 times as long with 8 bits."""
    learned, kept = set[int | None](), dict[Path, bytes]()
    for bits in (None, 8, 4, None):
        model = Model(tmp_path, None, kv_bits=bits, head_dim=32)
        told = model.serving.predict(model.request("?", long_prompt(9, 20)))
        assert (told.seconds is not None) == (bits in learned)
        for number in range(3):
            model.ask(f"r{number}", long_prompt(number, 20))
        model.serving.close()
        learned.add(bits)
        changed = [file for file in tmp_path.glob("cache/rates/*") if file.read_bytes() != kept.get(file)]
        assert len(changed) == 1
        kept[changed[0]] = changed[0].read_bytes()
        if bits is None:  # what versions before wrote, whatever the bits were, is of these
            assert changed[0].name == f"{model.model.fingerprint}.json"
    assert len(kept) == 3


def test_what_a_request_waited_for_before_its_turn_is_no_cost_of_it(
    tmp_path: Path, lessons: list[LESSON]
) -> None:
    """Its model may have had to be loaded, or another command was at work."""
    model = Model(tmp_path, None)
    began = time.perf_counter()
    request = model.request("late", PROMPT)
    request.clock.arrived -= 100
    model.serving.add(request)
    finish(model)
    ((kind, new, seconds),) = lessons
    assert (kind, new) == ("answered", len(PROMPT))
    assert 0 < seconds < time.perf_counter() - began


def test_who_waited_for_another_to_end_teaches_nothing_as_a_whole(
    tmp_path: Path, lessons: list[LESSON]
) -> None:
    model, long = Model(tmp_path, None, pages=16), long_prompt(1, 14)
    model.serving.add(model.request("first", PROMPT, answer=40))
    while not lessons:
        model.serving.work()
    model.serving.add(model.request("second", long))  # for which there is no room yet
    finish(model)
    assert [new for _, new, _ in lessons] == [len(PROMPT)]
    model.ask("alone", long_prompt(2, 14))
    assert lessons[-1][:2] == ("answered", len(long))


def test_who_shares_the_thread_with_another_model_teaches_nothing_as_a_whole(
    tmp_path: Path, lessons: list[LESSON]
) -> None:
    model = Model(tmp_path, None)
    model.ask("first", PROMPT)
    lessons.clear()
    model.serving.add(model.request("beside", long_prompt(1, 14)))
    model.serving.neighbour.held_up()  # for a moment, which is over by its first token
    finish(model)
    assert not lessons
    model.ask("alone", long_prompt(2, 14))
    assert [new for _, new, _ in lessons] == [len(long_prompt(2, 14))]


def test_growing_memory_is_no_cost_of_the_prompt_and_foretold(
    tmp_path: Path, lessons: list[LESSON], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, slow = Model(tmp_path, None), 0.3
    model.ask("first", PROMPT)
    model.ask("another", long_prompt(2, 20))
    reserve, arena = model.model.arena.reserve, model.model.arena

    def slowly(pages: int, limit: int) -> None:
        before = arena.pages
        reserve(pages, limit)
        if arena.pages != before:
            time.sleep(slow)
            arena.grew(arena.pages * arena.page_bytes, slow)

    monkeypatch.setattr(arena, "reserve", slowly)
    long = long_prompt(1, 60)
    lessons.clear()
    pages, began = arena.pages, time.perf_counter()
    model.ask("grows", long)
    whole = time.perf_counter() - began
    assert arena.pages > pages
    ((_, new, seconds),) = lessons
    assert new == len(long)
    assert seconds <= whole - slow
    grown = Foresight.first_token  # with what growing took, where there is no room
    seen = list[tuple[int, int]]()

    def noted(self: Foresight, *known: Any, **_: Any) -> float | None:
        seen.append(known[-2:])
        return grown(self, *known)

    monkeypatch.setattr(Foresight, "first_token", noted)
    free, unmet = arena.pages - model.model.pager.high_water, arena.unmet_bytes
    for name, prompt in (("?", PROMPT), ("??", long_prompt(3, free)), ("???", long_prompt(3, free + 1))):
        model.serving.predict(model.request(name, prompt))
    twice = 2 * arena.pages * arena.page_bytes
    assert seen == [(0, unmet), (0, unmet), (twice, twice)]
    assert unmet > 0


def test_a_models_first_request_says_nothing_of_restoring(
    tmp_path: Path, lessons: list[LESSON], monkeypatch: pytest.MonkeyPatch
) -> None:
    restore_always(monkeypatch)
    stored(tmp_path)
    lessons.clear()
    model = Model(tmp_path, tmp_path / "kv")
    _, report = model.ask("again", PROMPT, chat="chat")
    assert report.restored_tokens > 0
    assert not lessons
    model.rest(0.0)  # the arena is built for what else is on SSD
    model.rest(FREE_AFTER)
    _, report = model.ask("once more", PROMPT, chat="chat")
    assert report.restored_tokens > 0
    assert [kind for kind, *_ in lessons] == ["returned"]
    model.serving.close()


def test_what_new_memory_takes_before_pages_come_back_is_learned_apart_from_that(
    tmp_path: Path, lessons: list[LESSON], monkeypatch: pytest.MonkeyPatch
) -> None:
    restore_always(monkeypatch)
    met = list[tuple[int, float]]()
    monkeypatch.setattr(Foresight, "met", lambda self, nbytes, seconds: met.append((nbytes, seconds)))
    model, slow = Model(tmp_path, tmp_path / "kv"), 0.3
    model.ask("first", PROMPT, chat="chat")
    model.rest(FREE_AFTER)
    arena, memory = model.model.arena, model.model.arena.memory

    def slowly(pages: Sequence[int]) -> PoolMemory:
        time.sleep(0 if pages else slow)
        return memory(pages)

    monkeypatch.setattr(arena, "memory", slowly)
    lessons.clear()
    met.clear()
    began = time.perf_counter()
    _, report = model.ask("again", PROMPT, chat="chat")
    whole = time.perf_counter() - began
    assert report.restored_tokens > 0
    ((nbytes, meeting),) = met
    assert nbytes == arena.pages * arena.page_bytes
    assert meeting >= slow
    ((kind, _, seconds),) = lessons
    assert kind == "returned"
    assert seconds <= whole - slow
    model.serving.close()


def test_a_window_of_which_more_comes_back_than_is_read_teaches_nothing_of_reading(
    tmp_path: Path, lessons: list[LESSON], monkeypatch: pytest.MonkeyPatch
) -> None:
    restore_always(monkeypatch)
    model = Model(tmp_path, tmp_path / "kv", family="mistral", sliding_window=64)
    model.ask("first", PROMPT, chat="chat")
    model.rest(FREE_AFTER)
    lessons.clear()
    _, report = model.ask("again", PROMPT, chat="chat")
    assert report.restored_tokens > 0
    assert not lessons
    model.serving.close()


def test_a_refusal_to_restore_is_told_once_a_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused: list[Foresight] = []
    monkeypatch.setattr(Foresight, "refused", lambda self: refused.append(self))
    stored(tmp_path)
    model = Model(tmp_path, tmp_path / "kv")
    monkeypatch.setattr(
        Foresight, "should_restore", lambda self, tokens, context, read, met_bytes: not tokens
    )
    model.serving.predict(model.request("?", PROMPT, chat="chat"))
    model.rest(0.0)
    assert not refused
    _, report = model.ask("again", PROMPT, chat="chat")
    assert report.restored_tokens == 0
    assert len(refused) == 1
    model.ask("from memory", PROMPT, chat="chat")
    assert len(refused) == 1
    model.serving.close()


@pytest.mark.parametrize("wanted", [True, False])
@pytest.mark.parametrize("expected", [True, False])
def test_who_says_whether_pages_are_read_back_is_obeyed_and_teaches_nothing(
    wanted: bool, expected: bool, tmp_path: Path, lessons: list[LESSON], monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(tmp_path)
    lessons.clear()
    read = list[float]()
    refused = list[Foresight]()
    monkeypatch.setattr(Foresight, "restored", lambda self, tokens, seconds: read.append(seconds))
    monkeypatch.setattr(Foresight, "refused", lambda self: refused.append(self))
    monkeypatch.setattr(Foresight, "should_restore", lambda self, tokens, context, read, met_bytes: expected)
    model = Model(tmp_path, tmp_path / "kv")
    for name in ("first", "second"):  # a model's first request never teaches
        request = model.request(name, PROMPT, chat="chat")
        request.command = replace(request.command, restores=wanted)
        model.serving.add(request)
        finish(model)
        assert request.report is not None
        assert (request.report.restored_tokens > 0) == wanted
        model.rest(0.0)  # the arena is built for what is on SSD
        model.rest(FREE_AFTER)
        assert model.model.memory.cached_pages == 0
    assert (lessons, read, refused) == ([], [], [])
    model.serving.close()


@pytest.mark.parametrize("is_known", [True, False])
def test_a_models_first_request_teaches_what_computing_takes_where_nothing_is_known(
    is_known: bool, tmp_path: Path, lessons: list[LESSON], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Foresight, "knows_computing", lambda self, new: is_known)
    model = Model(tmp_path, None)
    model.ask("first", PROMPT)
    assert bool(lessons) != is_known
    model.ask("second", long_prompt(2, 20))
    assert lessons[-1][:2] == ("answered", len(long_prompt(2, 20)))


def test_a_first_long_prompt_teaches_by_its_chunks_however_many_steps_each_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = list[tuple[int, int, float]]()
    monkeypatch.setattr(Rates, "began", lambda self, *chunk: began.append(chunk))  # pyright: ignore
    model, long = Model(tmp_path, None), long_prompt(1, 40)
    sizer = model.serving._batcher.chunks
    monkeypatch.setattr(sizer, "next", lambda begin, remaining, answers=0: min(64, remaining))  # pyright: ignore
    monkeypatch.setattr(sizer, "layers", lambda tokens, left, answers=0: 1)  # pyright: ignore
    started = time.perf_counter()
    model.ask("first", long)
    assert [(tokens, begin) for tokens, begin, _ in began] == [
        (min(64, len(long) - begin), begin) for begin in range(0, len(long), 64)
    ]
    assert 0 < sum(seconds for _, _, seconds in began) <= time.perf_counter() - started
    for number in range(5):
        model.ask(f"more {number}", long_prompt(3 + number, 20 + number))
    began.clear()
    model.ask("another", long_prompt(9, 40))
    assert not began
