"""Whose prompt is read first: who asks little does not wait until a book is read, and no token changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.commands import Lane
from engine.events.events import Finished, PrefillProgress, TextChunk
from engine.kv.memory import KVMemory
from engine.prediction.prediction import Rates
from engine.runner import Runner
from engine.scheduler import MOST_READING
from tests.engine.queued import Queue, ids

LONG, SHORT = ids(700, 1), ids(20, 2)


@pytest.fixture(autouse=True)
def _a_machine_of_known_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten tokens a second, whatever this one takes, and one thread for all."""
    monkeypatch.setattr(Runner, "has_aside", False)
    monkeypatch.setattr(
        Rates,
        "first_token_seconds",
        lambda self, new, cached, steps, queue=0.0, **_: queue + new / 10,  # pyright: ignore
    )


def first_words(queue: Queue) -> list[str]:
    """Ids in the order in which their first word, or their end, came."""
    told = [event.id for event in queue.events if isinstance(event, (TextChunk, Finished))]
    return list(dict.fromkeys(told))


def read_some(queue: Queue, name: str) -> None:
    """Until some of a prompt is read, and not all of it."""
    while not any(isinstance(event, PrefillProgress) and event.id == name for event in queue.events):
        queue.serving.work()
    assert name not in first_words(queue)


@pytest.mark.parametrize("lane", ["api", "window"])
def test_a_short_prompt_is_read_before_what_is_left_of_a_long_one(lane: Lane, tmp_path: Path) -> None:
    queue = Queue(tmp_path, pages=80)
    queue.add(queue.request("book", LONG, answer=3, lane=lane))
    read_some(queue, "book")
    queue.add(queue.request("question", SHORT, answer=3, lane=lane))
    queue.work()
    assert first_words(queue) == ["question", "book"]
    queue.close()


def test_two_that_wait_are_read_in_the_order_of_their_turns(tmp_path: Path) -> None:
    queue = Queue(tmp_path, pages=160)
    for name, tokens in (("first", ids(600, 3)), ("book", LONG), ("question", SHORT)):
        queue.add(queue.request(name, tokens, answer=2))
    queue.work()
    assert first_words(queue) == ["first", "question", "book"]
    queue.close()


def test_a_long_prompt_that_has_waited_long_goes_first(tmp_path: Path) -> None:
    queue = Queue(tmp_path, pages=80)
    queue.add(queue.request("book", LONG, answer=3, age=MOST_READING + 1))
    queue.serving.work()
    queue.add(queue.request("question", SHORT, answer=3))
    queue.work()
    assert first_words(queue) == ["book", "question"]
    queue.close()


def test_what_is_asked_about_is_expected_before_a_long_prompt_that_it_goes_before(tmp_path: Path) -> None:
    queue = Queue(tmp_path, pages=80)
    queue.add(queue.request("book", LONG, answer=3))
    queue.serving.work()
    question = queue.request("question", SHORT, answer=3)
    assert queue.serving.predict(question).seconds == pytest.approx(len(SHORT) / 10)
    queue.work()
    queue.close()


def test_what_is_asked_about_is_expected_behind_the_prompts_that_are_read_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of them is read, and one waits; nobody waits for what is asked behind, nor for an answer."""
    monkeypatch.setattr(Rates, "reading_seconds", lambda self, tokens, context: tokens / 10)  # pyright: ignore
    queue, other = Queue(tmp_path, pages=80), ids(600, 3)
    queue.add(queue.request("answer", ids(20, 4), answer=200, age=4 * MOST_READING))
    queue.work_until_all_write()
    queue.add(queue.request("book", LONG, answer=3, age=3 * MOST_READING))
    read_some(queue, "book")
    book = queue.asked["book"].sequences[0]
    queue.add(queue.request("other", other, answer=3, age=2 * MOST_READING))
    queue.add(queue.request("behind", SHORT, answer=3, lane="api"))
    asked = queue.request("question", SHORT, answer=3, age=1.0)
    ahead = (book.pending + len(other)) / 10
    assert queue.serving.predict(asked).seconds == pytest.approx(ahead + len(SHORT) / 10)
    queue.work()
    queue.close()


def test_a_prompt_is_looked_up_once_when_it_is_asked_about_beside_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked about at each key that is pressed, and the engine's thread has answers to go on with."""
    queue = Queue(tmp_path, pages=80)
    queue.add(queue.request("book", LONG, answer=3))
    queue.serving.work()
    looked_up, lookup = list[int](), KVMemory.lookup
    monkeypatch.setattr(
        KVMemory, "lookup", lambda self, tokens: looked_up.append(len(tokens)) or lookup(self, tokens)
    )
    queue.serving.predict(queue.request("question", SHORT, answer=3))
    assert looked_up == [len(SHORT)]
    queue.work()
    queue.close()


def test_where_pages_are_short_a_long_prompt_goes_on_with_them(tmp_path: Path) -> None:
    """The short one came later: it never takes them away, and neither waits for ever."""
    queue = Queue(tmp_path, pages=46)  # 700 tokens take 44
    queue.add(queue.request("book", LONG, answer=20))
    read_some(queue, "book")
    queue.add(queue.request("question", ids(60, 4), answer=20))
    queue.work()
    assert queue.preemptions == 0
    queue.close()
