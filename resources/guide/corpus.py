"""The training text: turns of chats, drawn from grammar and noise, apart from what measures the guide."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from random import Random

from resources.guide.answers import small_talk
from resources.guide.facts import Facts
from resources.guide.grammar import Grammar
from resources.guide.noise import Noise
from resources.guide.overlap import Reserved
from resources.guide.topics import OFF_TOPIC, all_topics

HERE = Path(__file__).parent
MEASURES = ("heldout.jsonl", "offtopic.jsonl", "dev.jsonl")
OFF_TOPIC_SHARE = 0.3
CHUNK = 10_000


@dataclass(frozen=True, slots=True)
class Turn:
    """One question and its answer."""

    topic: str
    question: str
    answer: str


@dataclass(frozen=True, slots=True)
class Asked:
    """A wording that measures the guide, and the topic it belongs to."""

    topic: str
    question: str


def read_asked(file: Path) -> list[Asked]:
    """The questions of a .jsonl file of {"topic": …, "question": …}; off-topic ones may have no topic."""
    lines = [json.loads(line) for line in file.read_text("utf-8").splitlines() if line.strip()]
    return [Asked(line.get("topic", OFF_TOPIC), line["question"]) for line in lines]


def reserved() -> Reserved:
    """Everything that measures the guide, so that training text stays away from it."""
    files = (HERE / name for name in MEASURES)
    return Reserved(asked.question for file in files if file.exists() for asked in read_asked(file))


class Corpus:
    """Draws turns; the same seed and chunk give the same turns on every machine."""

    def __init__(self, facts: Facts) -> None:
        """Reads wordings and noise; answers are filled in with `facts`."""
        self._grammar = Grammar(HERE / "wordings")
        self._noise = Noise(HERE / "noise")
        self._reserved = reserved()
        self._answers = {topic.id: topic.answers for topic in all_topics(facts)}
        self._about = [topic for topic in self._grammar.topics if topic != OFF_TOPIC]
        self._small_talk = {topic.id for topic in small_talk.topics(facts)}
        if set(self._grammar.topics) != set(self._answers):
            raise ValueError(f"wordings and topics differ: {set(self._grammar.topics) ^ set(self._answers)}")

    def chunk(self, seed: int, number: int, size: int = CHUNK) -> list[Turn]:
        """Chunk `number` of the endless corpus of `seed`."""
        random = Random(f"{seed}/{number}")
        return [self._turn(random) for _ in range(size)]

    def systems(self, seed: int, count: int) -> list[str]:
        """`count` system messages."""
        random = Random(f"{seed}/systems")
        return [self._noise.system(random) for _ in range(count)]

    def _turn(self, random: Random) -> Turn:
        while True:
            topic = OFF_TOPIC if random.random() < OFF_TOPIC_SHARE else random.choice(self._about)
            question = self._question(topic, random)
            if not self._reserved.touches(question):
                return Turn(topic, question, random.choice(self._answers[topic]))

    def _question(self, topic: str, random: Random) -> str:
        text = self._noise.reword(self._grammar.draw(topic, random), random, losing=topic != OFF_TOPIC)
        if topic not in self._small_talk:
            text = self._noise.surround(text, random, about_app=topic != OFF_TOPIC)
        return self._noise.finish(text, random)


def draw_chunk(facts: Facts, seed: int, number: int) -> list[Turn]:
    """A chunk drawn by itself, for a process pool."""
    return Corpus(facts).chunk(seed, number)


def draw_turns(facts: Facts, seed: int, chunks: Sequence[int], workers: int) -> Iterator[Turn]:
    """The turns of several chunks in order, drawn by `workers` processes."""
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        for turns in pool.map(partial(draw_chunk, facts, seed), chunks):
            yield from turns
