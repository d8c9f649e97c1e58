"""Measures the guide: `python -m resources.guide.evaluate` prints a table, and exits 1 below a target."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine import Message, SamplingParams
from resources.guide.asking import GREEDY, Answer, Guide, as_in_chats
from resources.guide.checks import repeats, sentences
from resources.guide.corpus import HERE, Asked, read_asked
from resources.guide.facts import collect_facts
from resources.guide.topic import Topic
from resources.guide.topics import OFF_TOPIC, all_topics

MODEL = HERE / "model"
SEED = 2026


@dataclass(frozen=True, slots=True)
class Result:
    """A question, the guide's answer, and the topic that should have been answered."""

    asked: Asked
    answer: Answer
    topic: Topic
    declined: bool

    @property
    def right(self) -> bool:
        """Whether the answer has the right fact; declining has to fit in one sentence."""
        fits = self.topic.id != OFF_TOPIC or sentences(self.answer.text) == 1
        return fits and self.topic.accepts(self.answer.text)


@dataclass(frozen=True, slots=True)
class Row:
    """One measured share and its target: at least, or at most where `at_most`."""

    name: str
    hits: int
    total: int
    target: float
    at_most: bool = False

    @property
    def met(self) -> bool:
        """Whether the target is reached."""
        share = self.hits / self.total
        return share <= self.target if self.at_most else share >= self.target

    def __str__(self) -> str:
        sign = "<=" if self.at_most else ">="
        share = f"{self.hits}/{self.total}"
        verdict = "met" if self.met else "MISSED"
        return (
            f"{self.name:58} {share:>9} {self.hits / self.total:7.1%}  {sign} {self.target:4.0%}  {verdict}"
        )


def ask_all(
    guide: Guide, questions: Sequence[Asked], sampling: Callable[[int], SamplingParams]
) -> list[Result]:
    """Ask each question in a chat of its own; `sampling` gets the question's number."""
    topics = {topic.id: topic for topic in all_topics(collect_facts())}
    results: list[Result] = []
    for number, asked in enumerate(questions):
        answer = guide.ask(asked.question, sampling(number))
        declined = topics[OFF_TOPIC].accepts(answer.text)
        results.append(Result(asked, answer, topics[asked.topic], declined))
    return results


def ask_in_one_chat(guide: Guide, questions: Sequence[Asked], most_words: int) -> list[Result]:
    """Ask the questions one after the other in one chat, until it holds `most_words` words."""
    topics = {topic.id: topic for topic in all_topics(collect_facts())}
    chat: list[Message] = []
    results: list[Result] = []
    for asked in questions:
        if sum(len(message.content.split()) for message in chat) > most_words:
            break
        chat.append(Message("user", asked.question))
        answer = guide.answer(chat)
        chat.append(Message("assistant", answer.text))
        declined = topics[OFF_TOPIC].accepts(answer.text)
        results.append(Result(asked, answer, topics[asked.topic], declined))
    return results


def rows(how: str, on: Sequence[Result], off: Sequence[Result]) -> list[Row]:
    """The issue's targets for one way of asking."""
    both = [*on, *off]
    return [
        Row(f"{how}: right fact", sum(r.right for r in on), len(on), 0.90),
        Row(f"{how}: declined though about MLXR", sum(r.declined for r in on), len(on), 0.05, at_most=True),
        Row(f"{how}: off-topic declined in one sentence", sum(r.right for r in off), len(off), 0.90),
        *health(how, both),
    ]


def health(how: str, results: Sequence[Result]) -> list[Row]:
    """Answers that end by themselves, and do not repeat themselves."""
    ended = sum(r.answer.ended for r in results)
    sane = sum(not repeats(r.answer.text) for r in results)
    return [
        Row(f"{how}: ends by itself within 120 tokens", ended, len(results), 1.0),
        Row(f"{how}: no run of three words more than twice", sane, len(results), 1.0),
    ]


def measure(guide: Guide, on: Sequence[Asked], off: Sequence[Asked]) -> tuple[list[Row], list[Result]]:
    """Every row of the table, and the greedy results behind the first ones."""
    greedy_on, greedy_off = (ask_all(guide, asked, lambda _: GREEDY) for asked in (on, off))
    drawn_on, drawn_off = (ask_all(guide, asked, lambda n: as_in_chats(SEED + n)) for asked in (on, off))
    mixed = [on[i * 37 % len(on)] for i in range(len(on))]
    chat = ask_in_one_chat(guide, mixed, most_words=1800)
    table = [
        *rows("greedy", greedy_on, greedy_off),
        *rows("as in chats", drawn_on, drawn_off),
        Row("one long chat: right fact", sum(r.right for r in chat), len(chat), 0.85),
        *health("one long chat", chat),
    ]
    return table, [*greedy_on, *greedy_off]


def main() -> None:
    """Measure the guide on its held-out questions, or on others."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=MODEL, help="the guide's folder")
    parser.add_argument("--questions", type=Path, help="a .jsonl file instead of the held-out ones")
    parser.add_argument("--show", action="store_true", help="print the questions answered wrong")
    args = parser.parse_args()
    if args.questions:
        asked = read_asked(args.questions)
    else:
        asked = [*read_asked(HERE / "heldout.jsonl"), *read_asked(HERE / "offtopic.jsonl")]
    on = [each for each in asked if each.topic != OFF_TOPIC]
    off = [each for each in asked if each.topic == OFF_TOPIC]
    with Guide(args.model) as guide:
        table, results = measure(guide, on, off)
    print(f"{len({each.topic for each in on})} topics, {len(on)} questions about MLXR, {len(off)} others")
    print(*table, sep="\n")
    if args.show:
        print(
            *(f"{r.topic.id}: {r.asked.question} -> {r.answer.text}" for r in results if not r.right),
            sep="\n",
        )
    sys.exit(0 if all(row.met for row in table) else 1)


if __name__ == "__main__":
    main()
