"""A wall of repeated words is seen, an honest answer is not taken for one, and sentences are counted."""

from __future__ import annotations

import pytest

from resources.guide.checks import repeats, sentences
from resources.guide.facts import collect_facts
from resources.guide.topics import OFF_TOPIC, all_topics


@pytest.mark.parametrize(
    "text", ["is is is is is", "ask me now " * 3, "The page is the page is the page is it."]
)
def test_repetition_is_seen(text: str) -> None:
    assert repeats(text)


def test_no_answer_repeats_itself() -> None:
    assert not any(repeats(answer) for topic in all_topics(collect_facts()) for answer in topic.answers)


@pytest.mark.parametrize(
    ("text", "count"), [("One.", 1), ("One. Two!", 2), ("See config.json, v1.2.", 1), ("Really? Yes.", 2)]
)
def test_sentences_are_counted(text: str, count: int) -> None:
    assert sentences(text) == count


def test_declining_takes_one_sentence() -> None:
    declining = next(topic for topic in all_topics(collect_facts()) if topic.id == OFF_TOPIC)
    assert [sentences(answer) for answer in declining.answers] == [1] * len(declining.answers)
