"""What KV memory cannot hold is refused, and each way out that is named lets it run."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import EngineSettings, Failed, Finished, Generate, ModelReady, Refusal, WayOut, inspect_model
from engine.errors import Refused
from engine.fitting.fit import tenant
from engine.requests.admission import Capacity, check_capacity
from tests.fakes.listener import running_engine
from tests.fakes.random_model import write_random_model

CAPACITY = st.builds(
    Capacity,
    pages=st.integers(1, 60),
    page_size=st.sampled_from([1, 2, 16]),
    pinned=st.dictionaries(st.frozensets(st.sampled_from("ab"), min_size=1), st.integers(0, 30)),
    pages_in_8_bits=st.integers(1, 200),
)


def needed(prompt: int, answers: int, page_size: int) -> int:
    """Whole pages are shared; what is left of the prompt, and the next token, are each answer's own."""
    return prompt // page_size + answers


@given(prompt=st.integers(1, 500), answers=st.integers(1, 32), capacity=CAPACITY)
def test_a_request_is_refused_exactly_when_pages_are_missing(
    prompt: int, answers: int, capacity: Capacity
) -> None:
    available = max(0, capacity.pages - capacity.pinned_pages)
    missing = needed(prompt, answers, capacity.page_size)
    if missing <= available:
        check_capacity(prompt, answers, capacity)
        return
    with pytest.raises(Refused) as caught:
        check_capacity(prompt, answers, capacity)
    refusal = caught.value.refusal
    assert (refusal.needed_pages, refusal.available_pages) == (missing, available)
    assert (refusal.pinned_pages, refusal.prompt_tokens) == (capacity.pages - available, prompt)
    assert f"{missing:,}" in str(caught.value)
    assert ("pinned chats" in str(caught.value)) == (available < capacity.pages)


@pytest.mark.parametrize("page_size", [1, 2, 3])
def test_exactly_the_ways_out_that_help_are_named(page_size: int) -> None:
    some = {frozenset("b"): 1, frozenset("ab"): 1, frozenset("d"): 1}
    seen = set[tuple[str, ...]]()
    for prompt, answers, pages, pinned, times in itertools.product(
        range(1, 9), range(1, 5), range(1, 6), [{}, some], [1, 2]
    ):
        capacity = Capacity(pages, page_size, pinned, times * pages)  # "a" has a page of "b"
        told, alone = ways_out_of(prompt, answers, capacity), ways_that_help(prompt, answers, capacity)
        if alone == []:
            seen.add(tuple(way.kind for way in told or ()))
            assert_only_all_of_them_help(told or [], prompt, answers, capacity)
        else:
            assert told == alone
    assert () in seen or page_size > 1, "a page of one token holds no prompt and its answer"
    assert {("fewer answers", "shorten"), ("fewer answers", "evict")} < seen


def ways_out_of(prompt: int, answers: int, capacity: Capacity) -> list[WayOut] | None:
    """None where it is accepted."""
    try:
        check_capacity(prompt, answers, capacity)
    except Refused as error:
        return list(error.refusal.ways_out)
    return None


def is_held(tokens: int, answers: int, capacity: Capacity, pages: int | None = None) -> bool:
    has = (capacity.pages if pages is None else pages) - capacity.pinned_pages
    return needed(tokens, answers, capacity.page_size) <= max(0, has)


def pinned_for(capacity: Capacity, chat: str) -> int:
    return sum(count for chats, count in capacity.pinned.items() if chat in chats)


def without(capacity: Capacity, chat: str) -> Capacity:
    """What another chat has pinned too stays."""
    left = Counter[frozenset[str]]()
    for chats, count in capacity.pinned.items():
        left[chats - {chat}] += count
    del left[frozenset()]
    return replace(capacity, pinned=left)


def ways_that_help(prompt: int, answers: int, capacity: Capacity) -> list[WayOut] | None:
    """Each is tried, and the one of a kind that changes least is named; only all pinned chats are one way."""
    if is_held(prompt, answers, capacity):
        return None
    fewer = [number for number in range(answers - 1, 0, -1) if is_held(prompt, number, capacity)]
    shorter = [less for less in range(1, prompt) if is_held(prompt - less, answers, capacity)]
    ways = [WayOut("fewer answers", number) for number in fewer[:1]]
    ways += [WayOut("shorten", less) for less in shorter[:1]]
    if needed(prompt, answers, capacity.page_size) <= capacity.pages:
        chats = sorted(frozenset[str]().union(*capacity.pinned))
        alone = [chat for chat in chats if is_held(prompt, answers, without(capacity, chat))]
        ways += [
            WayOut("evict", pinned_for(capacity, chat), chat, needs_next=not alone and chat != chats[-1])
            for chat in alone or chats
        ]
    if is_held(prompt, answers, capacity, capacity.pages_in_8_bits):
        ways.append(WayOut("quantise", 8))
    return ways


def assert_only_all_of_them_help(ways: list[WayOut], prompt: int, answers: int, capacity: Capacity) -> None:
    """All are taken, and then none of a kind: it is held, and no more. Where none is named none helps."""
    kinds = {way.kind for way in ways}
    assert [way.needs_next for way in ways] == [True] * (len(ways) - 1) + [False] * bool(ways)
    for taken in itertools.chain.from_iterable(
        itertools.combinations(kinds, number) for number in range(len(kinds) + 1)
    ):
        left, number, now = prompt, answers, capacity
        for way in (way for way in ways if way.kind in taken):
            if way.kind == "evict":
                now = without(now, way.chat)
            number = way.amount if way.kind == "fewer answers" else number
            left -= way.amount if way.kind == "shorten" else 0
        assert left > 0
        assert is_held(left, number, now) == (len(taken) == len(kinds) > 0)
    if not ways:
        assert not is_held(1, 1, replace(capacity, pinned={}))


def test_the_words_are_one_line_with_every_way_out() -> None:
    with pytest.raises(Refused) as caught:
        check_capacity(100, 8, Capacity(14, 16, {frozenset("a"): 3}, pages_in_8_bits=30))
    assert str(caught.value) == (
        "this request needs 14 pages and KV memory has 11 beside those of pinned chats; ask for at most "
        "5 answers, shorten it by 37 tokens, unpin chat a (3 pages) or keep the KV cache in 8 bits"
    )


def test_the_words_say_what_helps_together_only() -> None:
    with pytest.raises(Refused) as caught:
        check_capacity(100, 8, Capacity(5, 16, {}, pages_in_8_bits=5))
    assert str(caught.value) == (
        "this request needs 14 pages and KV memory has 5; ask for one answer and shorten it by 21 tokens"
    )
    with pytest.raises(Refused) as caught:
        check_capacity(100, 1, Capacity(8, 16, {frozenset("a"): 2, frozenset("b"): 2}, pages_in_8_bits=8))
    assert str(caught.value).endswith(
        "shorten it by 37 tokens or unpin chat a (2 pages) and unpin chat b (2 pages)"
    )


def test_one_is_not_called_several() -> None:
    ways = (WayOut("shorten", 1), WayOut("evict", 1, "a"))
    assert str(Refused(Refusal(1, 0, ways))) == (
        "this request needs 1 page and KV memory has 0; shorten it by 1 token or unpin chat a (1 page)"
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model with heads of 32, which can be quantised."""
    home = tmp_path_factory.mktemp("models")
    return write_random_model(home / "wide", hidden_size=128, num_attention_heads=4, num_key_value_heads=2)


def pages_of(folder: Path, settings: EngineSettings, draft: Path | str = "") -> int:
    with running_engine(settings) as listener:
        return listener.load(folder, draft=draft).model.total_pages


def test_a_prompt_that_a_window_leaves_behind_is_shortened_by_that_too(tmp_path: Path) -> None:
    """Of 150 tokens a window of 21, a chunk and a page are in pages at once."""
    folder = write_random_model(tmp_path / "window", "mistral", sliding_window=21)
    prompt = tuple(3 + place % 290 for place in range(150))
    with running_engine(EngineSettings(page_size=4, kv_pages=8, prefill_chunk=16)) as listener:
        listener.load(folder)

        def ask(shorter: int) -> Failed | Finished | ModelReady:
            command = Generate(f"by {shorter}", tokens=prompt[shorter:], max_tokens=1, ignore_eos=True)
            listener.submit(command)
            return listener.end_of(command.id)

        end = ask(0)
        assert isinstance(end, Failed)
        assert end.refusal is not None
        (way,) = end.refusal.ways_out
        assert way.kind == "shorten"
        assert isinstance(ask(way.amount - 1), Failed)
        assert isinstance(ask(way.amount), Finished)


@pytest.mark.parametrize(("window", "size", "chunk"), [(16, 1, 1), (48, 16, 16), (50, 2, 16), (5, 4, 8)])
def test_with_a_window_any_prompt_is_held_by_the_pages_that_its_context_is_said_to_take(
    tmp_path: Path, window: int, size: int, chunk: int
) -> None:
    folder = write_random_model(tmp_path / "window", "mistral", sliding_window=window)
    settings = EngineSettings(page_size=size, prefill_chunk=chunk)
    pages = tenant(inspect_model(folder), settings).needed_pages
    with running_engine(replace(settings, kv_pages=pages)) as listener:
        assert listener.load(folder).model.context_length == 1024
        for length in (window, window + chunk + size, 150, 401):
            tokens = tuple(3 + place % 290 for place in range(length))
            listener.submit(Generate(f"{length}", tokens=tokens, max_tokens=40, ignore_eos=True))
            assert len(listener.finished(f"{length}").tokens) == 40


def ways_out(folder: Path, settings: EngineSettings, pages: int, draft: Path | str = "") -> set[str]:
    """What is offered for a prompt that needs so many pages, with the token behind it; none: it ran."""
    with running_engine(settings) as listener:
        model = listener.load(folder, draft=draft).model
        tokens = (7,) * (pages * model.page_size - 1)
        listener.submit(Generate("long", tokens=tokens, max_tokens=1, ignore_eos=True))
        end = listener.end_of("long")
    if isinstance(end, Finished):
        return set()
    assert isinstance(end, Failed)
    assert end.refusal is not None
    assert end.refusal.needed_pages == pages
    return {way.kind for way in end.refusal.ways_out}


def test_8_bits_are_offered_exactly_where_the_budget_would_do_in_them(folder: Path) -> None:
    with running_engine() as listener:
        budget = EngineSettings(kv_bytes=10 * listener.load(folder).model.page_bytes)
    full, in_8_bits = pages_of(folder, budget), pages_of(folder, replace(budget, kv_bits=8))
    assert (full, in_8_bits) == (10, 32)
    assert ways_out(folder, budget, full) == set()
    assert ways_out(folder, budget, in_8_bits) == {"shorten", "quantise"}
    assert ways_out(folder, replace(budget, kv_bits=8), in_8_bits) == set(), "the way out is one"
    assert ways_out(folder, budget, in_8_bits + 1) == {"shorten"}


@pytest.mark.parametrize("context", [1024, 192])
def test_8_bits_are_offered_where_a_draft_model_s_pages_leave_so_many(tmp_path: Path, context: int) -> None:
    """Those of the draft stay as they are: as many as the model has, or a chat of its whole context takes."""
    folder, draft = (
        write_random_model(tmp_path / name, hidden_size=128, head_dim=32, max_position_embeddings=length)
        for name, length in (("model", 1024), ("draft", context))
    )
    with running_engine() as listener:
        budget = EngineSettings(kv_bytes=30 * listener.load(folder).model.page_bytes)
    in_8_bits = replace(budget, kv_bits=8)
    full, most = (pages_of(folder, settings, draft) for settings in (budget, in_8_bits))
    assert full < most < pages_of(folder, in_8_bits)
    assert ways_out(folder, budget, full, draft) == set()
    assert ways_out(folder, budget, most, draft) == {"shorten", "quantise"}
    assert ways_out(folder, in_8_bits, most, draft) == set(), "the way out is one"
    assert ways_out(folder, budget, most + 1, draft) == {"shorten"}


@pytest.mark.parametrize(
    "settings",
    [
        EngineSettings(kv_pages=8),
        EngineSettings(kv_pages=8, kv_bits=8),
        EngineSettings(kv_pages=8, kv_bits=4),
    ],
)
def test_8_bits_are_not_offered_where_pages_are_counted_or_have_no_more(
    folder: Path, settings: EngineSettings
) -> None:
    assert ways_out(folder, settings, 9) == {"shorten"}


def test_8_bits_are_not_offered_for_heads_that_cannot_be_quantised(tmp_path: Path) -> None:
    folder = write_random_model(tmp_path / "narrow")
    with running_engine() as listener:
        budget = EngineSettings(kv_bytes=10 * listener.load(folder).model.page_bytes)
    assert ways_out(folder, budget, 12) == {"shorten"}


def test_8_bits_are_not_offered_to_a_cache_of_few_bytes_in_8_bits(folder: Path) -> None:
    with running_engine() as listener:
        budget = EngineSettings(kv_bytes=10 * listener.load(folder).model.page_bytes, kv_bits=8)
    assert ways_out(folder, budget, 33) == {"shorten"}
