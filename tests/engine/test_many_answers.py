"""Several answers to one prompt: they share its pages, and each is what it would be alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from engine import (
    Cancel,
    ChatsCached,
    EngineSettings,
    Failed,
    Finished,
    Freed,
    Generate,
    Keep,
    Refusal,
    Sample,
    SampleEnded,
    SamplingParams,
    Stats,
    TextChunk,
    WayOut,
)
from tests.engine.mix import samples
from tests.engine.oracle import Checked, checked_model
from tests.engine.watched import Watch, watch_memory
from tests.fakes.listener import Listener, running_engine

GREEDY = SamplingParams(temperature=0)
PAGE = 4


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Checked:
    return checked_model(tmp_path_factory.mktemp("models"), "llama")


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Iterator[Watch]:
    watch = watch_memory(monkeypatch)
    yield watch
    assert not watch.wrong


def prompt(tokens: int, first: int = 3) -> tuple[int, ...]:
    return tuple(first + 7 * number % 290 for number in range(tokens))


def settings(pages: int = 64, page_size: int = PAGE) -> EngineSettings:
    return EngineSettings(page_size=page_size, kv_pages=pages, prefill_chunk=16)


def idle(listener: Listener) -> Stats:
    """The engine's pulse when nothing is left to do."""
    stats = listener.wait(lambda event: isinstance(event, Stats) and not event.active_id)
    assert isinstance(stats, Stats)
    return stats


def answer(listener: Listener, **asked: object) -> list[Sample]:
    """All answers to one request."""
    listener.submit(Generate("asked", **asked))  # type: ignore[arg-type]
    end = listener.wait(lambda event: isinstance(event, Finished | Failed) and event.id == "asked")
    assert isinstance(end, Finished), end
    return samples(end)


@pytest.mark.parametrize("length", [1, 2, 16, 17, 30])
def test_a_cached_prompt_gets_as_many_answers_as_a_new_one(length: int, model: Checked, watch: Watch) -> None:
    command = Generate("r", tokens=prompt(length), max_tokens=5, logprobs=0, ignore_eos=True, n=3)
    with running_engine(settings()) as listener:
        listener.load(model.folder)
        for name in ("new", "cached"):
            listener.submit(replace(command, id=name))
            end = listener.finished(name)
            assert end.timing.prefill_tokens == (length if name == "new" else 1)
            assert len(samples(end)) == 3
            for sample in samples(end):
                assert len(sample.tokens) == 5
                assert not model.oracle.complaint(command, end.prompt_tokens, sample)


@pytest.mark.parametrize(("length", "pages"), [(64, 16 + 4), (66, 16 + 4), (63, 15 + 4 + 4)])
def test_answers_share_all_pages_but_those_they_write(
    length: int, pages: int, model: Checked, watch: Watch
) -> None:
    with running_engine(settings()) as listener:
        listener.load(model.folder)
        found = answer(listener, tokens=prompt(length), max_tokens=3, sampling=GREEDY, ignore_eos=True, n=4)
        assert len(found) == 4
        assert idle(listener).pages_used == 0
    assert watch.most_used == pages


def test_greedy_answers_are_all_the_same(model: Checked, watch: Watch) -> None:
    with running_engine(settings()) as listener:
        listener.load(model.folder)
        found = answer(listener, tokens=prompt(30), max_tokens=12, sampling=GREEDY, ignore_eos=True, n=4)
    assert len({sample.tokens for sample in found}) == 1
    assert {sample.reason for sample in found} == {"length"}


def test_answers_are_drawn_independently(model: Checked, watch: Watch) -> None:
    with running_engine(settings()) as listener:
        listener.load(model.folder)
        hot = SamplingParams(temperature=1.5)
        found = answer(listener, tokens=prompt(30), max_tokens=16, sampling=hot, ignore_eos=True, n=4)
    assert len({sample.tokens for sample in found}) == 4


def test_each_answer_is_the_one_of_its_seed_though_others_end_early(model: Checked, watch: Watch) -> None:
    ends_soon = SamplingParams(temperature=1.2, seed=11, logit_bias=((2, 6.0),))
    with running_engine(settings()) as listener:
        listener.load(model.folder)
        together = answer(listener, tokens=prompt(30), max_tokens=24, sampling=ends_soon, n=4)
        for index, sample in enumerate(together):
            seeded = SamplingParams(temperature=1.2, seed=11 + index, logit_bias=((2, 6.0),))
            (alone,) = answer(listener, tokens=prompt(30), max_tokens=24, sampling=seeded)
            assert (alone.tokens, alone.text, alone.reason) == (sample.tokens, sample.text, sample.reason)
    assert len({len(sample.tokens) for sample in together}) > 2, "none ended early"


def test_pieces_tell_whose_they_are(model: Checked, watch: Watch) -> None:
    with running_engine(settings()) as listener:
        listener.load(model.folder)
        hot = SamplingParams(temperature=1.5, seed=1)
        found = answer(listener, tokens=prompt(9), max_tokens=12, sampling=hot, ignore_eos=True, n=3)
        pieces = [event for event in listener.events if isinstance(event, TextChunk)]
    for index, sample in enumerate(found):
        assert sample.text == "".join(piece.text for piece in pieces if piece.sample == index)
        assert len(sample.text) > 3


def test_cancelling_ends_all_answers_and_frees_all_pages(model: Checked, watch: Watch) -> None:
    with running_engine(settings()) as listener:
        listener.load(model.folder)
        listener.submit_at(
            lambda event: isinstance(event, TextChunk) and event.generated_tokens > 2, Cancel("asked")
        )
        listener.submit(Generate("asked", tokens=prompt(30), max_tokens=100, ignore_eos=True, n=4))
        end = listener.finished("asked")
        assert {sample.reason for sample in samples(end)} == {"cancelled"}
        assert len(samples(end)) == 4
        assert idle(listener).pages_used == 0
        listener.submit(Generate("next", tokens=prompt(30), max_tokens=4, sampling=GREEDY, ignore_eos=True))
        following = listener.finished("next")
    (sample,) = samples(following)
    assert not model.oracle.complaint(Generate("next"), following.prompt_tokens, sample)
    assert following.timing.prefill_tokens == 1


def test_answers_that_need_more_pages_than_there_are_take_turns(model: Checked, watch: Watch) -> None:
    """Eight pages: three of the prompt, and four answers of up to four more each."""
    command = Generate("asked", tokens=prompt(12), max_tokens=15, logprobs=0, ignore_eos=True, n=4)
    with running_engine(settings(pages=8)) as listener:
        listener.load(model.folder)
        listener.submit(command)
        end = listener.finished("asked")
        stats = idle(listener)
    assert stats.cache.preemptions > 0
    for sample in samples(end):
        assert len(sample.tokens) == 15
        assert not model.oracle.complaint(command, end.prompt_tokens, sample)
    assert watch.most_used <= 8


def refused(listener: Listener, name: str, length: int, n: int) -> Refusal | None:
    listener.submit(Generate(name, tokens=prompt(length), max_tokens=1, ignore_eos=True, n=n))
    end = listener.end_of(name)
    if isinstance(end, Finished):
        return None
    assert isinstance(end, Failed)
    assert end.kind == "Refused"
    assert end.refusal is not None
    return end.refusal


def test_more_answers_than_pages_are_refused_with_ways_out_that_work(model: Checked, watch: Watch) -> None:
    with running_engine(settings(pages=8)) as listener:
        listener.load(model.folder)
        refusal = refused(listener, "all", 20, 4)  # five pages of the prompt, one for each answer
        assert refusal is not None
        assert (refusal.needed_pages, refusal.available_pages) == (9, 8)
        fewer, shorter, *_ = refusal.ways_out
        assert (fewer.kind, shorter.kind) == ("fewer answers", "shorten")
        assert refused(listener, "fewer", 20, fewer.amount) is None
        assert refused(listener, "one more", 20, fewer.amount + 1) is not None
        assert refused(listener, "shorter", 20 - shorter.amount, 4) is None
        assert idle(listener).pages_used == 0
        assert refused(listener, "one longer", 20 - shorter.amount + 1, 4) is not None


@pytest.mark.parametrize("n", [0, 33])
def test_no_answers_and_too_many_are_no_request(n: int, model: Checked, watch: Watch) -> None:
    with running_engine(settings()) as listener:
        listener.load(model.folder)
        listener.submit(Generate("asked", tokens=prompt(5), max_tokens=3, n=n))
        assert listener.failed("asked").error == f"n is {n}; it must be from 1 to 32"


def test_one_page_holds_one_answer(model: Checked, watch: Watch) -> None:
    with running_engine(settings(pages=1, page_size=16)) as listener:
        assert listener.load(model.folder).model.context_length == 16
        (sample,) = answer(listener, tokens=prompt(5), sampling=GREEDY, ignore_eos=True)
        assert len(sample.tokens) == 11
        assert not model.oracle.complaint(Generate("asked"), prompt(5), sample)
        refusal = refused(listener, "two", 5, 2)
        assert refusal is not None
        assert (refusal.needed_pages, refusal.available_pages) == (2, 1)
        assert WayOut("fewer answers", 1) in refusal.ways_out
        refusal = refused(listener, "long", 16, 1)
        assert refusal is not None
        assert WayOut("shorten", 1) in refusal.ways_out


def test_most_answers_of_one_prompt(model: Checked, watch: Watch) -> None:
    with running_engine(settings()) as listener:
        listener.load(model.folder)
        hot = SamplingParams(temperature=1.0, seed=3)
        command = Generate(
            "asked", tokens=prompt(20), max_tokens=4, logprobs=0, sampling=hot, ignore_eos=True, n=32
        )
        listener.submit(command)
        end = listener.finished("asked")
    assert len(samples(end)) == 32
    assert watch.most_running == 32
    for sample in samples(end):
        assert not model.oracle.complaint(command, end.prompt_tokens, sample)


def keep(listener: Listener, found: list[Sample], kept: int, length: int) -> Freed:
    """Keep one of the answers to `prompt(length)`."""
    ids = [prompt(length) + sample.tokens for sample in found]
    others = tuple(other for index, other in enumerate(ids) if index != kept)
    listener.submit(Keep("chat", ids[kept], others))
    freed = listener.wait(lambda event: isinstance(event, Freed))
    assert isinstance(freed, Freed)
    return freed


def test_one_is_kept_and_the_memory_of_the_rest_is_free(model: Checked, watch: Watch) -> None:
    hot = SamplingParams(temperature=1.5, seed=1)
    with running_engine(settings()) as listener:
        listener.load(model.folder)
        asked = {"tokens": prompt(30), "max_tokens": 13, "sampling": hot, "ignore_eos": True, "chat": "chat"}
        found = answer(listener, n=4, **asked)
        before = idle(listener)
        freed = keep(listener, found, 2, 30)
        after = idle(listener)
        pager, page_bytes = watch.models[0].pager, watch.models[0].arena.page_bytes
        # Each answer wrote 12 tokens behind 30: in the eighth page of four, and three more.
        assert (freed.chat, freed.pages, freed.bytes) == ("chat", 3 * 4, 3 * 4 * page_bytes)
        assert before.cached_pages - after.cached_pages == freed.pages
        assert pager.free_pages == pager.total_pages - after.cached_pages
        told = listener.wait(lambda event: isinstance(event, ChatsCached))
        assert isinstance(told, ChatsCached)
        listener.submit(Generate("next", tokens=(*prompt(30), *found[2].tokens, 9), max_tokens=1))
        assert listener.finished("next").timing.cached_tokens == 42


def test_an_answer_that_nobody_wants_ends_alone_and_leaves_nothing(model: Checked, watch: Watch) -> None:
    command = Generate("asked", tokens=prompt(30), max_tokens=60, ignore_eos=True, n=3, chat="chat")
    with running_engine(settings()) as listener:
        listener.load(model.folder)
        with listener.held():
            listener.submit(command)
            for sample in (0, 2):
                listener.submit(Cancel("asked", sample))
        end = listener.finished("asked")
        ended = [event for event in listener.events if isinstance(event, SampleEnded)]
        stats = idle(listener)
    assert {(event.sample, event.reason) for event in ended} == {(0, "cancelled"), (2, "cancelled")}
    lengths = [len(sample.tokens) for sample in samples(end)]
    assert lengths[1] == 60
    assert max(lengths[0], lengths[2]) < 60
    assert stats.cached_pages == -(-(30 + 59) // PAGE)


def test_when_no_answer_is_wanted_any_more_the_prompt_is_not_read(model: Checked, watch: Watch) -> None:
    command = Generate("asked", tokens=prompt(30), max_tokens=60, ignore_eos=True, n=2, chat="chat")
    with running_engine(settings()) as listener:
        listener.load(model.folder)
        with listener.held():
            listener.submit(command)
            for sample in (1, 0):
                listener.submit(Cancel("asked", sample))
        end = listener.finished("asked")
        stats = idle(listener)
    assert [(sample.reason, sample.tokens) for sample in samples(end)] == [("cancelled", ())] * 2
    assert (stats.cache.computed_tokens, stats.cached_pages) == (0, 0)


def test_keeping_without_a_model_or_its_pages_frees_nothing(model: Checked, watch: Watch) -> None:
    with running_engine(settings()) as listener:
        listener.submit(Keep("chat", (1, 2), ((1, 3),)))
        assert listener.wait(lambda event: isinstance(event, Freed)) == Freed("chat", 0, 0)
        listener.load(model.folder)
        listener.submit(Keep("chat", (), ((), prompt(9), (-1,))))
        assert listener.wait(lambda event: isinstance(event, Freed)) == Freed("chat", 0, 0)
