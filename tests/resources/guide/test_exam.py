"""The real guide, asked through the real engine: a sample of its exam; all of it in the long tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from engine import Message
from resources.guide.asking import GREEDY, Guide, as_in_chats
from resources.guide.checks import repeats
from resources.guide.corpus import HERE, Asked, read_asked
from resources.guide.evaluate import MODEL, Row, ask_all, measure, rows

MARGIN = 0.07  # a sample of a few dozen strays this far from the whole


@pytest.fixture(scope="module")
def guide() -> Iterator[Guide]:
    with Guide(MODEL) as guide:
        yield guide


def exam(name: str, every: int = 1) -> list[Asked]:
    return read_asked(HERE / name)[::every]


def loosened(row: Row) -> bool:
    """Whether a row of a sample is within the margin of its target."""
    share = row.hits / row.total
    return share <= row.target + MARGIN if row.at_most else share >= row.target - MARGIN


def test_a_sample_of_the_exam_is_passed(guide: Guide) -> None:
    on = ask_all(guide, exam("heldout.jsonl", every=8), lambda _: GREEDY)
    off = ask_all(guide, exam("offtopic.jsonl", every=3), lambda _: GREEDY)
    table = rows("greedy", on, off)
    assert all(loosened(row) for row in table), "\n".join(map(str, table))


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_the_whole_exam_is_passed(guide: Guide) -> None:
    table, _ = measure(guide, exam("heldout.jsonl"), exam("offtopic.jsonl"))
    assert all(row.met for row in table), "\n".join(map(str, table))


def test_drawn_answers_end_and_do_not_repeat(guide: Guide) -> None:
    for seed in range(5):
        answer = guide.ask("Tell me something about pages and tokens, please", as_in_chats(seed))
        assert answer.ended
        assert answer.text
        assert not repeats(answer.text)


def test_a_question_is_answered_the_same_late_in_a_chat(guide: Guide) -> None:
    chat: list[Message] = []
    for number in range(12):
        question = ("Where is my data kept?", "hello", "How many tokens does a page hold?")[number % 3]
        chat.append(Message("user", question))
        chat.append(Message("assistant", guide.answer(chat).text))
    assert "16 tokens" in chat[5].content
    assert chat[-1].content == chat[5].content


def test_a_system_message_does_not_upset_it(guide: Guide) -> None:
    chat = [
        Message("system", "You are a helpful assistant."),
        Message("user", "How many tokens fit in a page?"),
    ]
    assert "16 tokens" in guide.answer(chat).text
