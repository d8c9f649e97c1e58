"""What a model keeps for chats: which pins count, and what a request has room for."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.commands import Keep
from engine.events.cache import ChatsCached, Freed
from engine.events.events import Finished, Stats
from engine.events.pages import PINNED, PageMap
from tests.engine.served_model import PROMPT, Model, long_prompt
from tests.engine.watched import guess_always


def asked(folder: Path, *chats: str, pages: int = 64) -> Model:
    """Chats of PROMPT's length that have nothing in common."""
    model = Model(folder, None, pages)
    for number, chat in enumerate(chats):
        model.ask(chat, long_prompt(number, 4), chat=chat)
    model.events.clear()
    return model


def test_a_pin_counts_while_its_chat_has_pages_in_memory(tmp_path: Path) -> None:
    model = asked(tmp_path, "a")
    chats = model.serving.chats
    chats.pin("nowhere", True)
    assert not chats.holds_pinned
    chats.pin("a", True)
    assert chats.holds_pinned
    chats.forget("a")
    assert not chats.holds_pinned
    model.ask("again", PROMPT, chat="a")
    assert not chats.holds_pinned
    model.ask("first of it", PROMPT, chat="nowhere")
    assert chats.holds_pinned
    chats.pin("nowhere", False)
    assert not chats.holds_pinned


def test_who_watches_pages_sees_a_pin_at_once(tmp_path: Path) -> None:
    model = asked(tmp_path, "a")
    for is_watched in (False, True):
        model.serving.watch_pages(is_watched)
        model.events.clear()
        model.serving.chats.pin("a", True)
        maps = [event for event in model.events if isinstance(event, PageMap)]
        assert bool(maps) is is_watched
        assert all(state & PINNED for event in maps for state in event.states[:4])
        model.serving.chats.pin("a", False)


def test_what_is_pinned_for_others_is_no_room_for_a_chat_or_what_it_does_not_begin_with(
    tmp_path: Path,
) -> None:
    model = asked(tmp_path, "a", "b", "c")
    chats, of_a = model.serving.chats, model.model.memory.chats()["a"].memory_bytes
    chats.pin("a", True)
    pages = of_a // model.model.arena.page_bytes
    for chat, prompt, held, shared in (
        ("b", long_prompt(7, 4), pages, 0),
        ("a", long_prompt(7, 4), 0, 0),
        ("b", long_prompt(0, 4), 1, pages - 1),  # that of the answer
    ):
        capacity = chats.capacity(chat, prompt)
        assert (capacity.pages, capacity.pinned_pages) == (64, held)
        assert capacity.shared == ({frozenset("a"): shared} if shared else {})
        assert capacity.shared_tokens == shared * capacity.page_size
        assert capacity.pinned == ({frozenset("a"): held} if held else {})


def test_what_a_chat_keeps_shares_and_forgets_is_told_at_once(tmp_path: Path) -> None:
    model = asked(tmp_path, "a")
    chats, memory, page_bytes = model.serving.chats, model.model.memory, model.model.arena.page_bytes
    answers = list[tuple[int, ...]]()
    for first in (50, 150):
        prompt = (*long_prompt(0, 4), *range(first, first + 40))
        answers.append((*prompt, *model.ask(str(first), prompt, chat="a")[0].tokens))
    before = memory.cached_pages
    for act in (
        lambda: chats.keep(Keep("a", answers[0], (answers[1],))),
        lambda: chats.share("branch", answers[0]),
        lambda: chats.forget("a"),
        lambda: chats.forget("branch"),
    ):
        model.events.clear()
        act()
        told = [event.cached_pages for event in model.events if isinstance(event, Stats)]
        assert told == [memory.cached_pages]
        assert [event.chats for event in model.events if isinstance(event, ChatsCached)] == [memory.chats()]
        freed = [event for event in model.events if isinstance(event, Freed)]
        if freed:
            assert freed == [Freed("a", before - memory.cached_pages, page_bytes * freed[0].pages)]
            assert freed[0].pages >= 2
    assert memory.cached_pages == 0


def test_what_8_bits_would_make_of_it_follows_the_pages_that_it_may_have(tmp_path: Path) -> None:
    """A head of 32 elements of four bytes, or of one with a scale and a bias of four."""
    model = Model(tmp_path, None, hidden_size=128, head_dim=32)
    for pages in (64, 40, 64):
        model.serving.limit_pages(pages, 0.0)
        capacity = model.serving.chats.capacity()
        assert (capacity.pages, capacity.pages_in_8_bits) == (pages, pages * 32 * 4 // (32 + 8))


def test_a_branch_keeps_what_the_model_that_guesses_has_read_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guess_always(monkeypatch)
    model = Model(tmp_path, None, has_draft=True)
    assert model.draft is not None
    said = (*long_prompt(0, 4), *model.ask("first", long_prompt(0, 4), 20, "a")[0].tokens)
    memory, whole = model.draft.memory, len(said) // 16 * 16
    model.serving.chats.share("branch", said)
    model.serving.forget("a")
    assert memory.lookup([*said, 0]).cached_tokens == whole
    model.serving.forget("branch")
    assert memory.cached_pages == 0
    memory.check([])


def test_what_the_model_that_guesses_has_read_of_answers_that_were_not_kept_is_freed_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guess_always(monkeypatch)
    model = Model(tmp_path, None, has_draft=True)
    assert model.draft is not None
    both, chats, answers = (model.model, model.draft), model.serving.chats, list[tuple[int, ...]]()
    for first in (50, 150):
        prompt = (*long_prompt(0, 4), *range(first, first + 40))
        answers.append((*prompt, *model.ask(str(first), prompt, 40, "a")[0].tokens))
    before = [each.memory.cached_pages for each in both]
    chats.keep(Keep("a", answers[0], (answers[1],)))
    freed = [pages - each.memory.cached_pages for pages, each in zip(before, both, strict=True)]
    assert min(freed) > 2
    (told,) = (event for event in model.events if isinstance(event, Freed))
    sizes = [each.arena.page_bytes * pages for each, pages in zip(both, freed, strict=True)]
    assert told == Freed("a", sum(freed), sum(sizes))
    common = len(long_prompt(0, 4))
    for each in both:
        assert each.memory.lookup((*answers[1], 0)).cached_tokens == common
        assert each.memory.lookup((*answers[0], 0)).cached_tokens > common + 40
        each.memory.check([])


def test_of_an_answer_that_nobody_wants_the_model_that_guesses_keeps_the_prompt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guess_always(monkeypatch)
    model, prompt = Model(tmp_path, None, has_draft=True), long_prompt(0, 4)
    assert model.draft is not None
    memory, serving = model.draft.memory, model.serving
    serving.add(model.request("first", prompt, 60, "a"))
    while model.draft.pager.pages_used < 6:
        serving.work()
    serving.cancel("first", 0)
    (end,) = (event for event in model.events if isinstance(event, Finished))
    assert len(end.tokens) > 16
    assert memory.lookup((*prompt, *end.tokens)).cached_tokens == len(prompt)
    assert memory.cached_pages == 4
    memory.check([])
