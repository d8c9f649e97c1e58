"""Beside answers the arena is built by and by: nobody waits for all of it, and nothing is kept for nobody."""

from __future__ import annotations

from pathlib import Path

import mlx.core as mx
import pytest

from engine.cache.arena_room import ANSWER_ROOM, NEAR_PAGES
from engine.events.events import Failed, Finished
from engine.kv.arena import Arena
from engine.kv.growth import settle
from engine.machine.machine import device_kind
from engine.requests.request import Request
from engine.residents.elsewhere import NOBODY, Elsewhere
from engine.runner import Runner
from tests.engine.served_model import PROMPT, Model, long_prompt

PAGES = 300
"""Of the long prompt."""


def beside_an_answer(folder: Path, pages: int | None = None, answer: int = 400) -> tuple[Model, Request]:
    """A model that writes a long answer, and its request."""
    model = Model(folder, None, pages, max_position_embeddings=8192)
    request = model.request("chat", PROMPT, answer=answer, chat="chat")
    model.serving.add(request)
    while not request.sequences[0].generated:
        model.serving.work()
    return model, request


@pytest.fixture
def grown(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Pages before each growth, and bytes that were built ahead of it, an array before each step."""
    monkeypatch.setattr("engine.cache.arena_room.SHARE", 0.0)
    told, reserve = list[tuple[int, int]](), Arena.reserve

    def noted(self: Arena, pages: int, limit: int) -> None:
        before = self.pages, self.growing.ahead_bytes
        reserve(self, pages, limit)
        if self.pages != before[0]:
            told.append(before)

    monkeypatch.setattr(Arena, "reserve", noted)
    return told


def test_a_long_prompt_begins_when_the_arena_is_built_an_array_in_each_step_of_the_answer(
    tmp_path: Path, grown: list[tuple[int, int]]
) -> None:
    model, chat = beside_an_answer(tmp_path)
    arena, before = model.model.arena, len(chat.sequences[0].generated)
    grown.clear()
    long = model.request("long", long_prompt(1, PAGES), chat="long")
    model.serving.add(long)
    ahead = list[int]()
    while not long.clock.prefill_began:
        model.serving.work()
        ahead.append(arena.growing.ahead_bytes)
        settle()
    arrays = model.model.config.layers * len(arena.growing.arrays)
    # A CPU's thread begins the last one before a step, too.
    assert len(ahead) == arrays + (device_kind() == "CPU")
    assert ahead[:-1] == sorted(set(ahead[:-1]))
    assert len(chat.sequences[0].generated) - before >= arrays - 2
    assert grown == [(64, arena.pages * arena.page_bytes)]
    assert arena.growing.ahead_bytes == 0
    while model.serving.busy:
        model.serving.work()
    assert len(grown) == 1  # for the answer, too
    again = Model(tmp_path, None, max_position_embeddings=8192)
    alone, _ = again.ask("alone", PROMPT, answer=400)
    long_alone, _ = again.ask("long alone", long_prompt(1, PAGES))
    ends = {event.id: event for event in model.events if isinstance(event, Finished)}
    assert ends["chat"].tokens == alone.tokens
    assert ends["long"].tokens == long_alone.tokens


@pytest.mark.usefixtures("grown")
@pytest.mark.parametrize(("share", "stays"), [(PAGES, False), (8 * PAGES, True)])
def test_what_was_built_ahead_goes_where_another_model_has_its_room(
    tmp_path: Path, share: int, stays: bool
) -> None:
    """Nobody wants it any more by then, and the answer goes on for long."""
    model, chat = beside_an_answer(tmp_path)
    growing = model.model.arena.growing
    model.serving.add(model.request("long", long_prompt(1, PAGES)))
    model.serving.work()
    assert growing.ahead_bytes > 0
    model.serving.cancel("long")
    model.serving.limit_pages(share, 0.0)
    model.serving.work()
    assert (growing.ahead_bytes > 0) == stays
    while model.serving.busy:
        model.serving.work()
    assert len(chat.sequences[0].generated) == chat.most_tokens


def test_another_model_s_answers_are_not_held_up_either(tmp_path: Path, grown: list[tuple[int, int]]) -> None:
    model = Model(tmp_path, None, max_position_embeddings=16_384)
    model.ask("warm", PROMPT)
    arena = model.model.arena
    for name, elsewhere in (("beside", Elsewhere(is_busy=True, answers=1)), ("behind", NOBODY)):
        grown.clear()
        long = model.request(name, long_prompt(1, PAGES * (1 + (name == "behind"))), answer=1)
        model.serving.add(long)
        model.serving.work(elsewhere)
        assert bool(long.clock.prefill_began) == (elsewhere is NOBODY)
        while not long.clock.prefill_began:
            settle()
            model.serving.work(elsewhere)
        ((_, ahead),) = grown
        assert ahead == (0 if elsewhere is NOBODY else arena.pages * arena.page_bytes)
        while model.serving.busy:
            model.serving.work()


def test_a_prompt_alone_has_it_built_at_once(tmp_path: Path, grown: list[tuple[int, int]]) -> None:
    model = Model(tmp_path, None, max_position_embeddings=8192)
    grown.clear()
    long = model.request("long", long_prompt(1, PAGES))
    model.serving.add(long)
    model.serving.work()
    assert long.clock.prefill_began
    assert [ahead for _, ahead in grown] == [0]


def test_an_answer_that_outgrows_the_arena_finds_it_built(
    tmp_path: Path, grown: list[tuple[int, int]]
) -> None:
    model, chat = beside_an_answer(tmp_path, answer=ANSWER_ROOM + 1200)
    arena = model.model.arena
    grown.clear()
    while not grown:
        free = arena.pages - len(chat.sequences[0].table.pages)
        assert arena.growing.ahead_bytes == 0 or free <= NEAR_PAGES
        model.serving.work()
        settle()
    ((_, ahead),) = grown
    assert ahead == arena.pages * arena.page_bytes
    model.serving.cancel_all()


@pytest.mark.usefixtures("grown")
def test_who_comes_after_one_that_was_cancelled_waits_for_its_own_pages_alone(tmp_path: Path) -> None:
    model, _ = beside_an_answer(tmp_path)
    model.serving.add(model.request("long", long_prompt(1, PAGES)))
    model.serving.work()
    model.serving.cancel("long")
    short = model.request("short", long_prompt(2, 2))
    model.serving.add(short)
    model.serving.work()
    assert short.clock.prefill_began
    model.serving.cancel_all()


@pytest.mark.parametrize("answer", [104, 4 * ANSWER_ROOM])
def test_who_begins_has_it_grown_for_those_beside_it_too_as_was_foretold(
    answer: int, tmp_path: Path, grown: list[tuple[int, int]]
) -> None:
    model, chat = beside_an_answer(tmp_path, answer=answer)
    arena, pager = model.model.arena, model.model.pager
    grown.clear()
    long = model.request("long", long_prompt(1, PAGES), answer=answer)
    lengths = len(PROMPT), len(long.prompt)
    ends = [min(length + answer, length + 1 + ANSWER_ROOM) for length in lengths]
    foretold = model.serving._room.needed(long)
    assert foretold == sum(-(-end // 16) for end in ends)
    model.serving.add(long)
    while not long.clock.prefill_began:
        model.serving.work()
    assert len(chat.sequences[0].generated) < answer
    assert arena.pages == arena.pages_for(foretold, pager.total_pages)
    assert [ahead for _, ahead in grown] == [arena.pages * arena.page_bytes]
    model.serving.cancel_all()


@pytest.mark.usefixtures("grown")
def test_who_is_cancelled_while_it_is_built_leaves_nothing_behind_at_rest(tmp_path: Path) -> None:
    model, _ = beside_an_answer(tmp_path)
    arena = model.model.arena
    model.serving.add(model.request("long", long_prompt(1, PAGES)))
    for _ in range(2):
        model.serving.work()
    assert arena.growing.ahead_bytes > 0
    assert arena.pages == 64
    model.serving.cancel("long")
    model.serving.cancel("chat")
    assert not model.serving.busy
    assert arena.growing.ahead_bytes == 0


def test_where_the_budget_has_no_room_for_both_it_grows_at_once(
    tmp_path: Path, grown: list[tuple[int, int]]
) -> None:
    model, _ = beside_an_answer(tmp_path, pages=PAGES + 60)
    arena = model.model.arena
    grown.clear()
    long = model.request("long", long_prompt(1, PAGES))
    model.serving.add(long)
    model.serving.work()
    assert long.clock.prefill_began
    assert grown == [(64, 0)]
    assert arena.pages <= PAGES + 60
    model.serving.cancel_all()


def test_pages_that_a_prompt_is_still_to_take_are_not_free(
    tmp_path: Path, grown: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer that is longer than was thought takes them while the prompt is read."""
    monkeypatch.setattr("engine.cache.arena_room.ANSWER_ROOM", 32)
    monkeypatch.setattr("engine.cache.arena_room.NEAR_PAGES", 1)
    monkeypatch.setattr(Runner, "has_aside", False)
    model, _ = beside_an_answer(tmp_path)
    sizer = model.serving._batcher.chunks
    monkeypatch.setattr(sizer, "next", lambda begin, remaining, answers=0: min(5, remaining))  # pyright: ignore
    monkeypatch.setattr(sizer, "layers", lambda tokens, left, answers=0: left)  # pyright: ignore
    grown.clear()
    long = model.request("long", long_prompt(1, 45))
    model.serving.add(long)
    while not long.sequences[0].generated:
        model.serving.work()
        settle()
    assert grown == [(64, model.model.arena.pages * model.model.arena.page_bytes)]
    model.serving.cancel_all()


@pytest.mark.parametrize("for_good", [False, True])
def test_what_breaks_while_it_is_built_ahead_is_nobody_s_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, for_good: bool
) -> None:
    model, chat = beside_an_answer(tmp_path)
    growing = model.model.arena.growing
    (keys, make), *others = growing._makers.items()
    asked, small = list[int](), 16 * growing.pages

    def broken(slots: int) -> mx.array:
        asked.append(slots)
        if slots > small and (for_good or len(asked) == 1):
            raise RuntimeError("[malloc] Unable to allocate 5 bytes.")
        return make(slots)

    with monkeypatch.context() as patch:
        patch.setattr(growing, "_makers", {keys: broken, **dict(others)})
        long = model.request("long", long_prompt(1, PAGES))
        model.serving.add(long)
        model.serving.work()
        assert bool(long.clock.prefill_began) != for_good  # it waits for nothing
        while model.serving.busy:
            model.serving.work()
    ends = {event.id: event for event in model.events if isinstance(event, Finished | Failed)}
    assert isinstance(ends["chat"], Finished)
    assert len(ends["chat"].tokens) == chat.most_tokens
    if for_good:
        assert isinstance(ends["long"], Failed)
        assert "allocate" in ends["long"].error
    else:
        assert isinstance(ends["long"], Finished)


def test_what_was_built_before_that_broke_is_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.cache.arena_room.NEAR_PAGES", 100)  # an answer wants more at once
    monkeypatch.setattr("engine.kv.growth.device_kind", lambda: "CUDA")
    model, chat = beside_an_answer(tmp_path, answer=20)
    growing = model.model.arena.growing
    keys, (values, make) = growing._makers.items()
    small, built = 16 * growing.pages, list[int]()

    def broken(slots: int) -> mx.array:
        built.append(growing.ahead_bytes)
        if slots > small:
            raise RuntimeError("[malloc] Unable to allocate 5 bytes.")
        return make(slots)

    monkeypatch.setattr(growing, "_makers", {**dict([keys]), values: broken})
    while model.serving.busy and not built:
        model.serving.work()
    assert built[0] > 0
    assert growing.ahead_bytes == 0
    while model.serving.busy:
        model.serving.work()
    (end,) = (event for event in model.events if isinstance(event, Finished))
    assert len(end.tokens) == chat.most_tokens
