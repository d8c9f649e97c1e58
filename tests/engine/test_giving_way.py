"""Who waits for whom when pages are short: the better-ranked begins, and whoever gave way loses nothing."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from engine.commands import Lane
from engine.runner import Runner
from engine.sampling.params import SamplingParams
from engine.scheduler import MAX_RUNNING
from tests.engine.oracle import checked_model
from tests.engine.queued import Queue, ids
from tests.engine.watched import guess_always


@pytest.fixture(autouse=True)
def _on_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that who has come how far is not a matter of threads."""
    monkeypatch.setattr(Runner, "has_aside", False)


def test_the_window_s_chat_does_not_wait_for_a_program_s_whole_answer(tmp_path: Path) -> None:
    queue = Queue(tmp_path, pages=16)
    queue.add(queue.request("api", ids(100), 150))
    queue.work_until_all_write()
    queue.add(queue.request("win", ids(150, 4), 3, "window", "w"))
    queue.work()
    assert [end.id for end in queue.ends] == ["win", "api"]
    assert [len(end.tokens) for end in queue.ends] == [3, 150]
    assert queue.preemptions == 1
    queue.close()


def test_the_window_s_chat_does_not_wait_for_one_of_many_answers_to_end(tmp_path: Path) -> None:
    """As many as may run at once, and pages for many more: the last that came makes place for it."""
    queue = Queue(tmp_path, pages=500)
    many = {f"api {number}" for number in range(MAX_RUNNING)}
    for number in range(MAX_RUNNING):
        queue.add(queue.request(f"api {number}", ids(4, number), 900))
    queue.work_until_all_write()
    assert queue.running == many
    queue.add(queue.request("one more", ids(4, 50), 3))
    queue.add(queue.request("win", ids(20, 40), 3, "window", "w"))
    while not queue.running & {"win"}:
        queue.work(1)
    assert queue.running == {*many, "win"} - {f"api {MAX_RUNNING - 1}"}
    while queue.running != many:
        queue.work(1)
    assert [end.id for end in queue.ends] == ["win"]
    assert queue.preemptions == 1
    queue.serving.cancel_all()
    queue.close()


def test_a_prompt_that_is_longer_than_memory_begins_beside_others_where_a_window_leaves_most_of_it(
    tmp_path: Path,
) -> None:
    """Of its 300 tokens 41 are in pages at once, and there are pages for 96."""
    model = checked_model(tmp_path, "window", max_position_embeddings=1024)
    queue = Queue(tmp_path, pages=24, model=model, page_size=4, prefill_chunk=16)
    queue.add(queue.request("api", ids(10), 200))
    queue.work_until_all_write()
    queue.add(queue.request("win", ids(300, 4), 3, "window", "w"))
    queue.work()
    assert [end.id for end in queue.ends] == ["win", "api"]
    assert queue.preemptions == 0
    queue.close()


@pytest.mark.parametrize(("lane", "age"), [("api", 0.0), ("window", 0.0)])
def test_nobody_gives_way_to_one_that_is_ranked_behind(lane: Lane, age: float, tmp_path: Path) -> None:
    """Another program's, or the window's that came half a minute after this one."""
    queue = Queue(tmp_path, pages=16)
    queue.add(queue.request("first", ids(100), 60, age=31.0))
    queue.work_until_all_write()
    queue.add(queue.request("second", ids(150, 4), 3, lane, age=age))
    queue.work()
    assert [end.id for end in queue.ends] == ["first", "second"]
    assert queue.preemptions == 0
    queue.close()


def test_the_worst_ranked_gives_way_first_and_the_best_goes_on(tmp_path: Path) -> None:
    queue = Queue(tmp_path, pages=44)
    for number in range(3):
        queue.add(queue.request(f"api {number}", ids(80, number), 100))
    queue.work_until_all_write()
    queue.add(queue.request("win", ids(400, 9), 3, "window", "w"))
    while not queue.running & {"win"}:
        queue.work(1)
    assert "api 0" in queue.running
    assert "api 2" not in queue.running
    queue.work()
    assert sorted(end.id for end in queue.ends) == ["api 0", "api 1", "api 2", "win"]
    queue.close()


def test_a_pinned_chat_goes_on_where_its_pages_would_help_nobody(tmp_path: Path) -> None:
    queue = Queue(tmp_path, pages=24)
    queue.serving.chats.pin("kept", True)
    queue.add(queue.request("api", ids(100), 60))
    queue.add(queue.request("kept", ids(100, 7), 11, chat="kept"))
    queue.work_until_all_write()
    queue.add(queue.request("win", ids(150, 4), 3, "window", "w"))
    given_up = set[str]()
    while queue.serving.busy:
        queue.work(1)
        given_up |= {
            one.request.id for one in queue.serving._batcher if one.generated and not one.table.pages
        }
    assert given_up == {"api"}
    assert sorted(end.id for end in queue.ends) == ["api", "kept", "win"]
    queue.serving.chats.pin("kept", False)
    queue.close()


def test_a_pinned_chat_that_fills_memory_goes_on_in_its_last_page(tmp_path: Path) -> None:
    queue = Queue(tmp_path, pages=8)
    queue.serving.chats.pin("a", True)
    queue.add(queue.request("first", ids(117), 4, chat="a"))
    queue.work()
    said = (*ids(117), *queue.ends[0].tokens, 9)
    queue.add(queue.request("second", said, 3, chat="a"))
    queue.work()
    assert [end.id for end in queue.ends] == ["first", "second"]
    assert queue.serving.model.memory.cached_pages == 8
    queue.serving.chats.pin("a", False)
    queue.close()


def test_a_pinned_chat_goes_on_beside_an_answer_on_the_pages_that_are_kept_for_it(tmp_path: Path) -> None:
    """Its 16 pages are in memory, and the one that it needs besides is free."""
    queue = Queue(tmp_path, pages=32)
    queue.serving.chats.pin("mine", True)
    queue.add(queue.request("first", ids(250), 4, "window", "mine"))
    queue.work()
    queue.add(queue.request("api", ids(40, 7), 100))
    queue.work_until_all_write()
    queue.add(queue.request("second", (*ids(250), 7, 8, 9), 3, "window", "mine"))
    queue.work()
    assert [end.id for end in queue.ends] == ["first", "second", "api"]
    assert queue.preemptions == 0
    queue.serving.chats.pin("mine", False)
    queue.close()


def test_nobody_gives_way_whose_pages_stay_for_a_pinned_chat(tmp_path: Path) -> None:
    """What "like" holds is the pinned chat's but for a page: "win" would wait for "old" all the same."""
    queue = Queue(tmp_path, pages=24)
    queue.serving.chats.pin("kept", True)
    queue.add(queue.request("kept", ids(190), 3, chat="kept"))
    queue.work()
    queue.add(queue.request("old", ids(90, 5), 40, "window", age=60.0))
    queue.add(queue.request("like", (*ids(190), 9), 20, age=1.0))
    queue.work_until_all_write()
    queue.add(queue.request("win", ids(120, 4), 3, "window", "w"))
    queue.work()
    assert [end.id for end in queue.ends] == ["kept", "like", "old", "win"]
    assert queue.preemptions == 0
    queue.serving.chats.pin("kept", False)
    queue.close()


def test_an_answer_gives_way_to_a_prompt_that_is_read_beside_it(tmp_path: Path) -> None:
    """There were pages for both when it began; while it is read, a few tokens at a time, the answer grows."""
    queue = Queue(tmp_path, pages=33, prefill_chunk=4)
    queue.add(queue.request("api", ids(90), 150))
    queue.work_until_all_write()
    queue.add(queue.request("win", ids(410, 4), 3, "window", "w"))
    queue.work()
    assert [end.id for end in queue.ends] == ["win", "api"]
    assert queue.preemptions == 1
    queue.close()


def test_an_answer_that_gave_way_is_guessed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its prompt is computed again in pieces, behind each of which nothing is new for the draft model."""
    guess_always(monkeypatch)
    queue = Queue(tmp_path, pages=24, draft=True, prefill_chunk=16)
    queue.add(queue.request("low", ids(150), 200))
    queue.work_until_all_write()
    queue.add(queue.request("high", ids(37, 9), 120, "window"))
    queue.work()
    assert [len(end.tokens) for end in queue.ends] == [120, 200]
    assert queue.preemptions > 0
    queue.close()


def test_a_branch_of_a_chat_that_answers_begins_on_the_pages_that_both_hold(tmp_path: Path) -> None:
    """Memory has no room for the prompt twice: where shared pages counted it waited for the whole answer."""
    queue = Queue(tmp_path, pages=16)
    prompt = ids(150)
    queue.add(queue.request("chat", prompt, 60, chat="a"))
    queue.work_until_all_write()
    queue.add(queue.request("branch", (*prompt, 5), 3, chat="a"))
    queue.work()
    assert [end.id for end in queue.ends] == ["branch", "chat"]
    assert queue.preemptions == 0
    queue.close()


def cached_texts(queue: Queue) -> list[tuple[int, ...]]:
    """The tokens of each cached page, with those before it."""
    texts = list[tuple[int, ...]]()
    for node in queue.serving.model.memory.tree.nodes():
        tokens, parent = node.tokens, node.parent
        while parent is not None:
            tokens, parent = (*parent.tokens, *tokens), parent.parent
        texts.append(tokens)
    return texts


@pytest.mark.parametrize("goes_on_before", [False, True])
@pytest.mark.parametrize("temperature", [0, 1.5])
def test_one_of_many_answers_that_gave_way_and_is_not_wanted_leaves_nothing(
    temperature: float, goes_on_before: bool, tmp_path: Path
) -> None:
    """Two answers of up to 60 tokens behind 30 do not fit into 8 pages. Equal ones lose nothing."""
    queue = Queue(tmp_path, pages=8)
    drawn = SamplingParams(temperature=temperature, seed=1)
    queue.add(queue.request("both", ids(30), 60, chat="a", n=2, sampling=drawn))
    first, second = queue.asked["both"].sequences
    while not second.generated or second in queue.serving._batcher.running:
        queue.work(1)
    while goes_on_before and second not in queue.serving._batcher.running:
        queue.work(1)
    before = cached_texts(queue)
    queue.serving.cancel("both", 1)
    wanted = [text for text in before if first.tokens(0, len(text)) == text]
    assert cached_texts(queue) == wanted
    assert (len(wanted) == len(before)) == (temperature == 0)
    queue.work()
    queue.close()


def test_what_is_left_of_a_prompt_is_told_by_its_pace_since_it_went_on(tmp_path: Path) -> None:
    queue = Queue(tmp_path, pages=60)
    book = queue.request("book", ids(900), 3)
    queue.add(book)
    while book.sequences[0].table.length < 100:
        queue.work(1)
    began = book.progress._began
    queue.add(queue.request("win", ids(860, 4), 3, "window", "w"))
    queue.work(1)
    gave_way = time.perf_counter()
    queue.work()
    assert queue.preemptions == 1
    assert began is not None
    assert book.progress._began is not None
    assert began < gave_way < book.progress._began
    queue.close()
