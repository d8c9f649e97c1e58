"""Pinned chats where memory is short: their own requests go on, others' end or are refused in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import mlx.core as mx
import pytest

from engine import (
    EngineSettings,
    Failed,
    Finished,
    Generate,
    Pin,
    PrefillProgress,
    SampleEnded,
    SamplingParams,
    Share,
    TextChunk,
)
from engine.events.cache import Refusal, WayOut
from engine.rest.tidying import FREE_AFTER
from engine.runner import Runner
from engine.steps.parts import Part
from tests.engine.mix import samples
from tests.engine.oracle import Checked, checked_model
from tests.engine.queued import Queue
from tests.engine.served_model import Model
from tests.engine.watched import restore_always
from tests.fakes.listener import Listener, running_engine

PAGES, PAGE = 8, 16


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Checked:
    return checked_model(tmp_path_factory.mktemp("models"), "llama", max_position_embeddings=1024)


@pytest.fixture
def engine(checked: Checked) -> Iterator[Listener]:
    """With PAGES pages of PAGE tokens."""
    with running_engine(EngineSettings(kv_pages=PAGES, page_size=PAGE, prefill_chunk=16)) as listener:
        listener.load(checked.folder)
        yield listener


def ids(tokens: int, number: int = 0) -> tuple[int, ...]:
    return tuple(3 + (7 * place + 31 * number + place // 290) % 290 for place in range(tokens))


def ask(name: str, prompt: tuple[int, ...], answer: int, chat: str) -> Generate:
    greedy = SamplingParams(temperature=0)
    return Generate(
        name, tokens=prompt, max_tokens=answer, sampling=greedy, ignore_eos=True, logprobs=0, chat=chat
    )


def run(checked: Checked, engine: Listener, command: Generate) -> Finished:
    """Its end, once its tokens were found to be right."""
    engine.submit(command)
    end = engine.finished(command.id)
    (sample,) = samples(end)
    assert not checked.oracle.complaint(command, end.prompt_tokens, sample)
    return end


def test_a_pinned_chat_that_is_written_anew_takes_its_own_pages(checked: Checked, engine: Listener) -> None:
    engine.submit(Pin("a", True))
    for number in range(6):
        end = run(checked, engine, ask(f"{number}", (*ids(8), *ids(40, number)), 20, "a"))
        assert end.reason == "length"
        assert len(end.tokens) == 20
    again = run(checked, engine, ask("the last again", (*ids(8), *ids(40, 5)), 20, "a"))
    assert again.timing.prefill_tokens == 1  # what was used last stayed


def test_another_s_pinned_pages_stay_though_both_began_alike(checked: Checked, engine: Listener) -> None:
    run(checked, engine, ask("a", ids(90), 3, "a"))
    engine.submit(Pin("a", True))
    run(checked, engine, ask("b", (*ids(90), *ids(3, 4)), 3, "b"))
    engine.submit(ask("b anew", ids(40, 9), 8, "b"))
    failed = engine.failed("b anew")
    assert failed.refusal is not None
    assert (failed.refusal.needed_pages, failed.refusal.available_pages) == (3, 2)
    assert WayOut("evict", 6, "a") in failed.refusal.ways_out
    assert run(checked, engine, ask("a again", ids(90), 3, "a")).timing.prefill_tokens == 1


def test_a_chat_that_is_pinned_no_longer_is_no_way_out(checked: Checked, engine: Listener) -> None:
    for number, chat in enumerate(("a", "x")):
        run(checked, engine, ask(chat, ids(45, number), 3, chat))
        engine.submit(Pin(chat, True))
    engine.submit(Pin("a", False))
    engine.submit(ask("b", ids(80, 7), 3, "b"))
    refusal = engine.failed("b").refusal
    assert refusal is not None
    assert refusal.ways_out == (WayOut("shorten", 1), WayOut("evict", 3, "x"))


def test_an_answer_beside_pinned_pages_ends_where_these_begin(checked: Checked, engine: Listener) -> None:
    run(checked, engine, ask("a", ids(60), 3, "a"))  # four pages
    engine.submit(Pin("a", True))
    end = run(checked, engine, ask("b", ids(20, 7), 100, "b"))
    assert (end.reason, end.limit) == ("length", "memory")
    assert 20 + len(end.tokens) == (PAGES - 4) * PAGE


def test_where_pages_are_pinned_while_a_prompt_is_read_its_refusal_counts_all_of_it(tmp_path: Path) -> None:
    """After 48 of its 100 tokens: four pages are left for the seven of them and of the token behind."""
    queue = Queue(tmp_path, pages=PAGES, prefill_chunk=48)
    queue.add(queue.request("a", ids(60), 3, chat="a"))
    queue.work()
    queue.add(queue.request("b", ids(100, 7), 5, chat="b"))
    while not any(sequence.table.length for sequence in queue.serving._batcher):
        queue.serving.work()
    queue.serving.chats.pin("a", True)
    while queue.serving.busy:
        queue.serving.work()
    (failed,) = [event for event in queue.events if isinstance(event, Failed)]
    assert failed.refusal == Refusal(
        needed_pages=7,
        available_pages=4,
        ways_out=(WayOut("shorten", 37), WayOut("evict", 4, "a")),
        pinned_pages=4,
        prompt_tokens=100,
    )
    queue.serving.chats.pin("a", False)
    queue.close()


@pytest.mark.parametrize("pages", [8, 12, 20])
def test_who_has_no_room_left_when_a_pinned_answer_ends_is_refused_before_any_of_it_is_read(
    pages: int, tmp_path: Path
) -> None:
    """It was accepted beside the two pages of the chat's prompt; the answer left it all pages but five."""
    queue = Queue(tmp_path, pages=pages, prefill_chunk=16)
    queue.serving.chats.pin("a", True)
    queue.add(queue.request("a", ids(20), 50, chat="a"))
    queue.work_until_all_write()
    prompt = ids((pages - 3) * PAGE, 7)
    queue.add(queue.request("b", prompt, 5, chat="b"))
    queue.add(queue.request("small", ids(PAGE, 5), 5, chat="c"))
    while queue.serving.busy:
        queue.serving.work()
        assert queue.serving.model.pager.pages_used <= pages
    (failed,) = [event for event in queue.events if isinstance(event, Failed)]
    assert failed.refusal == Refusal(
        needed_pages=pages - 2,
        available_pages=pages - 5,
        ways_out=(WayOut("shorten", 2 * PAGE + 1), WayOut("evict", 5, "a")),
        pinned_pages=5,
        prompt_tokens=len(prompt),
    )
    assert not [event for event in queue.events if isinstance(event, PrefillProgress) and event.id == "b"]
    assert {end.id: len(end.tokens) for end in queue.ends} == {"a": 50, "small": 5}
    queue.serving.chats.pin("a", False)
    queue.add(queue.request("b again", prompt, 5, chat="b"))
    queue.serving.work()
    assert queue.running == {"b again"}
    while queue.serving.busy:
        queue.serving.work()
    assert queue.ends[-1].id == "b again"
    queue.close()


def test_where_pages_are_pinned_meanwhile_an_answer_ends_with_what_it_has(
    checked: Checked, engine: Listener
) -> None:
    run(checked, engine, ask("a", ids(60), 3, "a"))
    engine.submit_at(lambda event: isinstance(event, TextChunk) and event.id == "b", Pin("a", True))
    end = run(checked, engine, ask("b", ids(20, 7), 100, "b"))
    assert (end.reason, end.limit) == ("length", "memory")
    assert 20 + len(end.tokens) in range((PAGES - 4) * PAGE, (PAGES - 4) * PAGE + 2)
    assert not [event for event in engine.events if isinstance(event, Failed)]


def test_of_several_answers_each_ends_with_what_it_has_room_for_alone(
    checked: Checked, engine: Listener
) -> None:
    run(checked, engine, ask("a", ids(60), 3, "a"))
    engine.submit_at(lambda event: isinstance(event, TextChunk) and event.id == "b", Pin("a", True))
    command = replace(ask("b", ids(20, 7), 100, "b"), n=3, sampling=SamplingParams(temperature=1, seed=1))
    engine.submit(command)
    end = engine.finished("b")
    assert end.limit == "memory"
    for sample in samples(end):
        assert 20 + len(sample.tokens) in range((PAGES - 4) * PAGE, (PAGES - 4) * PAGE + 2)
        assert not checked.oracle.complaint(command, end.prompt_tokens, sample)


def test_of_several_answers_each_tells_what_it_came_to_the_end_of_itself(
    checked: Checked, engine: Listener
) -> None:
    """The first is as long as was asked, and then pinned; the other, that gave way to it, has no room."""
    drawn = SamplingParams(temperature=1, seed=1)
    command = replace(ask("b", ids(20, 7), 90, "b"), sampling=drawn)
    first = run(checked, engine, replace(command, id="first", chat=None))
    whole = (*first.prompt_tokens, *first.tokens)
    engine.submit_at(lambda event: isinstance(event, SampleEnded), Share("a", whole), Pin("a", True))
    engine.submit(replace(command, n=2))
    end = engine.finished("b")
    assert [len(sample.tokens) == 90 for sample in samples(end)] == [True, False]
    assert [(sample.reason, sample.limit) for sample in samples(end)] == [
        ("length", "max_tokens"),
        ("length", "memory"),
    ]
    assert [event for event in engine.events if isinstance(event, SampleEnded)] == [
        SampleEnded("b", 0, "length", "max_tokens")
    ]


def test_who_is_on_trial_and_finds_no_room_beside_pinned_pages_holds_up_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step of two broke; who came meanwhile and goes before them waits while one of them is tried."""
    step, broken = Runner.step, list[int]()

    def breaks_once(self: Runner, parts: Sequence[Part], tokens: mx.array) -> mx.array:
        if len(parts) == 2 and not broken:
            broken.append(len(parts))
            raise RuntimeError("the device was lost")
        return step(self, parts, tokens)

    queue = Queue(tmp_path, pages=22, page_size=2, prefill_chunk=16)
    for number in (1, 2):
        queue.add(queue.request(f"suspect {number}", ids(10, number), 30))
    queue.work_until_all_write()
    monkeypatch.setattr(Runner, "step", breaks_once)
    queue.work(1)
    assert broken
    queue.add(queue.request("a", ids(20, 3), 1, "window", "a"))
    queue.add(queue.request("before", ids(6, 4), 15, "window"))
    while not {"before", "suspect 1"} <= queue.running:
        queue.work(1)
    queue.serving.chats.pin("a", True)
    queue.work(200)
    assert {end.id for end in queue.ends} == {"a", "before", "suspect 1", "suspect 2"}
    queue.serving.chats.pin("a", False)
    queue.close()


@pytest.mark.parametrize("family", ["llama", "mistral"])
def test_what_a_pinned_chat_is_told_to_find_on_ssd_comes_back(
    family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another branch of it is in memory, and takes nearly all of that."""
    restore_always(monkeypatch)
    window = {} if family == "llama" else {"sliding_window": 100}
    model = Model(tmp_path, tmp_path / "kv", PAGES, family=family, **window)
    first, _ = model.ask("first", ids(100), chat="a")
    model.rest(FREE_AFTER)
    model.serving.chats.pin("a", True)
    model.ask("other branch", ids(100, 7), chat="a")
    assert model.model.memory.available_pages < 100 // PAGE
    told = model.serving.predict(model.request("?", ids(100), chat="a"))
    again, report = model.ask("first again", ids(100), chat="a")
    assert again.tokens == first.tokens
    assert (report.cached_tokens, report.restored_tokens) == (0, 96)
    assert (told.cached_tokens, told.restored_tokens) == (0, 96)
    model.serving.close()


def test_chats_that_pin_the_same_pages_are_a_way_out_together(checked: Checked, engine: Listener) -> None:
    """Of eight pages "a" and its branch have four, and three of them together."""
    run(checked, engine, ask("a", ids(60), 3, "a"))
    engine.submit(Share("branch", ids(60)))
    for chat in ("a", "branch"):
        engine.submit(Pin(chat, True))
    long = ask("long", ids(100, 7), 3, "b")
    engine.submit(long)
    refusal = engine.failed("long").refusal
    assert refusal is not None
    *_, first, second = refusal.ways_out
    assert (first, second) == (WayOut("evict", 4, "a", needs_next=True), WayOut("evict", 3, "branch"))
    engine.submit(Pin("branch", False))
    engine.submit(replace(long, id="still"))
    assert engine.failed("still").refusal is not None
    engine.submit(Pin("a", False))
    assert run(checked, engine, replace(long, id="then")).tokens


def test_a_prompt_is_not_to_be_cut_off_from_pinned_pages_that_it_begins_with(
    checked: Checked, engine: Listener
) -> None:
    """All but one page are pinned: three answers behind four of these would need their own pages still."""
    run(checked, engine, ask("a", ids(110), 1, "a"))
    engine.submit(Pin("a", True))
    engine.submit(replace(ask("b", ids(70), 3, "b"), n=3))
    refusal = engine.failed("b").refusal
    assert refusal is not None
    assert (refusal.needed_pages, refusal.available_pages) == (7, 5)
    assert refusal.ways_out == (WayOut("fewer answers", 1), WayOut("evict", 3, "a"))
    assert run(checked, engine, ask("one", ids(70), 3, "b")).tokens
