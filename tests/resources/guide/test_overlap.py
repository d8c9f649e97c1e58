"""No exam question was trained on: no run of five content words is shared, and none is there whole."""

from __future__ import annotations

import json
import re

import pytest

from resources.guide.corpus import HERE, Corpus
from resources.guide.evaluate import MODEL
from resources.guide.facts import collect_facts
from resources.guide.overlap import STOP_WORDS, Reserved, content_words
from resources.guide.topics import all_topics
from resources.guide.train import MANIFEST

EXAM = ("heldout.jsonl", "offtopic.jsonl")


def words_of(text: str) -> list[str]:
    """Content words, found in another way than the code under test does."""
    plain = re.sub(r"[^a-z0-9']", " ", text.lower().replace("’", "'"))
    return [word for word in plain.split() if word not in STOP_WORDS]


def five_grams(texts: list[str]) -> set[str]:
    grams: set[str] = set()
    for text in texts:
        words = words_of(text)
        grams.update(" ".join(words[i : i + 5]) for i in range(len(words) - 4))
    return grams


def exam_questions() -> list[str]:
    lines = [line for name in EXAM for line in (HERE / name).read_text("utf-8").splitlines()]
    return [json.loads(line)["question"] for line in lines]


def assert_apart(chunks: range) -> None:
    facts = collect_facts()
    seed = json.loads((MODEL / MANIFEST).read_text("utf-8"))["seed"]
    corpus, exam = Corpus(facts), exam_questions()
    exam_grams = five_grams(exam)
    whole = {" ".join(words_of(question)) for question in exam if len(words_of(question)) >= 3}
    for chunk in chunks:
        asked = [turn.question for turn in corpus.chunk(seed, chunk)]
        assert not exam_grams & five_grams(asked)
        assert not whole & {" ".join(words_of(question)) for question in asked}
    assert not exam_grams & five_grams([a for topic in all_topics(facts) for a in topic.answers])


def test_a_sample_of_the_training_text_shares_nothing_with_the_exam() -> None:
    assert_apart(range(4))


@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_whole_training_text_shares_nothing_with_the_exam() -> None:
    chunks = json.loads((MODEL / MANIFEST).read_text("utf-8"))["schedule"]["chunks"]
    assert_apart(range(chunks))


def test_the_exam_is_long_and_wide_enough() -> None:
    held_out = [json.loads(line) for line in (HERE / "heldout.jsonl").read_text("utf-8").splitlines()]
    assert len({line["question"].lower() for line in held_out}) >= 200
    assert len({line["topic"] for line in held_out}) >= 60
    assert len((HERE / "offtopic.jsonl").read_text("utf-8").splitlines()) >= 50


def test_a_shared_run_or_a_whole_question_is_noticed() -> None:
    reserved = Reserved(
        ["Where does MLXR keep the big secret chat database file?", "find hidden page numbers"]
    )
    assert reserved.touches("I think MLXR should keep a big secret chat somewhere")
    assert reserved.touches("How do I find the hidden page numbers?")
    assert not reserved.touches("MLXR keep big chat secret")
    assert not reserved.touches("find page numbers")


def test_stop_words_are_left_out() -> None:
    assert content_words("What's the Page-size of MY cache?") == ("page", "size", "cache")
