"""A draft model: how an answer goes on while it reads a long chat, and what guesses bring, right or wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

from app.amounts import counted
from app.cli.cache_speed_models import write_model
from app.cli.cache_speed_scene import REST_S, ROOM, Scene, new_tokens
from app.cli.cache_speed_speculation import FLAT, PIECES, PROMPT, rates_of
from app.cli.rows import Row, ratio_row
from app.measure.engine_client import Answer, EngineClient
from app.measure.pairs import interleave, prompt_tokens
from engine import SHAPES, Generate, SamplingParams

GROUP = "a draft model"
SHAPE = replace(SHAPES["guide-like"], layers=12)
"""What is guessed for. Only its lowest layers change what goes through them."""
DRAFTING = 2
"""So many: a model of these alone guesses everything right, and costs a fraction."""
LONG = 4096
"""Most tokens of the chat that the draft model reads."""
MESSAGE = 28
"""Tokens of the chat's next message."""
TOGETHER = 0.1
"""Tokens that come within this part of a plain step came of one step, a draft's."""
CHAT = "draft"


@dataclass(frozen=True, slots=True)
class _Models:
    """The target, the lowest layers of it, and as many layers with other weights: guesses that are wrong."""

    target: Path
    right: Path
    wrong: Path


@dataclass(frozen=True, slots=True)
class _Pair:
    """Answers to a chat: without a draft model, with one that has read nothing of it, and its next turn."""

    plain: Answer
    first: Answer
    following: Answer


@dataclass(frozen=True, slots=True)
class _Text:
    """What is decoded: `ask` gives the request for a prompt, by its number and the tokens to generate.

    Attributes:
        unread: tokens of the prompt, none of which the draft model has read.
        pieces: answers that are a sample together.
    """

    what: str
    ask: Callable[[tuple[int, ...], int, int], Generate]
    unread: int
    pieces: int


def measure_draft(scene: Scene) -> Iterator[Row]:
    """Rows of the reading, and of the speed with and without."""
    length, count = min(scene.plan.context, LONG), 4 * scene.plan.decoded
    with TemporaryDirectory(prefix="draft-", dir=scene.scratch) as parent:
        models = _written(scene, Path(parent), length + 2 * count + ROOM)
        settings = replace(scene.settings, speculation=True)
        with EngineClient(settings) as client:
            _make_ready(client, models.target, models.right)
            yield from _reading_rows(scene, client, length, count)
            yield from _speed_rows(scene, client, _Text("right guesses", _greedy, PROMPT, 1), count)
        with EngineClient(settings) as client:
            _make_ready(client, models.target, models.wrong)
            yield from _speed_rows(scene, client, _Text("wrong guesses", _drawing, PROMPT, PIECES), count)
            behind = f"wrong guesses, behind {length} unread tokens"
            yield from _speed_rows(scene, client, _Text(behind, _drawing, length, 1), count)


def _written(scene: Scene, parent: Path, context: int) -> _Models:
    scene.say("writing a model and those that guess for it")
    lowest = replace(SHAPE, layers=DRAFTING)
    return _Models(
        write_model(scene, parent / "target", SHAPE, context, speaking=DRAFTING),
        write_model(scene, parent / "right", lowest, context),
        write_model(scene, parent / "wrong", lowest, context, seed=1),
    )


def _make_ready(client: EngineClient, model: Path, draft: Path) -> None:
    """Load it with what guesses for it, and compile what both need."""
    client.load(model, draft)
    client.run(_greedy(prompt_tokens(PROMPT, 0, 7), 0, 1))
    client.wait_until_warm(REST_S)


def _greedy(prompt: tuple[int, ...], number: int, count: int) -> Generate:
    return Generate("", tokens=prompt, max_tokens=count, ignore_eos=True, chat=CHAT)


def _drawing(prompt: tuple[int, ...], number: int, count: int) -> Generate:
    sampling = SamplingParams(temperature=FLAT, seed=number)
    return replace(_greedy(prompt, number, count), sampling=sampling)


def _reading_rows(scene: Scene, client: EngineClient, length: int, count: int) -> Iterator[Row]:
    """The longest gap while the draft model reads, and after how many tokens it begins to guess."""
    pairs: list[_Pair] = []
    for number in range(scene.plan.pairs + 1):
        scene.say(f"a draft model reads {counted(length, 'token')}: pair {number} of {scene.plan.pairs}")
        pair = _read(client, length, number, count)
        pairs += [pair] * (number > 0)  # the first warms up
        client.forget(CHAT)
    plain = [1000 * longest_gap(pair.plain) for pair in pairs]
    yield Row("longest gap between tokens, without guessing", "ms", tuple(plain), group=GROUP)
    for what, answers in (
        (f"{counted(length, 'token')} to read", [pair.first for pair in pairs]),
        (f"its next turn, {MESSAGE} new ones", [pair.following for pair in pairs]),
    ):
        longest = [1000 * longest_gap(answer) for answer in answers]
        yield Row(f"longest gap between tokens, {what}", "ms", tuple(longest), group=GROUP)
        yield ratio_row(f"longest gap, with to without, {what}", longest, plain, None, GROUP)
        begun = tuple(
            float(before_drafts(answer, 1 / pair.plain.end.timing.decode_tps))
            for answer, pair in zip(answers, pairs, strict=True)
        )
        yield Row(f"tokens before the first draft, {what}", "", begun, group=GROUP)


def _read(client: EngineClient, length: int, number: int, count: int) -> _Pair:
    chat = prompt_tokens(length, number, 8)
    asked = _greedy(chat, number, count)
    plain = client.run(replace(asked, speculation=False))
    first = client.run(asked)
    following = (*chat, *first.end.tokens, *new_tokens(MESSAGE, number, 8))
    return _Pair(plain, first, client.run(_greedy(following, number, count // 2)))


def _speed_rows(scene: Scene, client: EngineClient, text: _Text, count: int) -> Iterator[Row]:
    """With guesses and without, in turns; each chat is new, so that the draft model reads all of it."""

    def asked(number: int, count: int) -> Generate:
        return text.ask(prompt_tokens(text.unread, number, 9), number, count)

    def prepare(number: int) -> None:
        scene.say(f"{text.what}: answers {number} of {answers}")
        client.forget(CHAT)
        client.run(replace(asked(number, 1), speculation=False))

    def side(*, speculation: bool) -> Callable[[int], Answer]:
        return lambda number: client.run(replace(asked(number, count), speculation=speculation))

    answers = scene.plan.pairs * text.pieces
    guessing, plain = interleave(answers, side(speculation=True), side(speculation=False), prepare)
    on, off = rates_of(guessing, text.pieces), rates_of(plain, text.pieces)
    yield Row(text.what, "tok/s", tuple(on), group=GROUP)
    yield Row(f"{text.what}: without guessing", "tok/s", tuple(off), group=GROUP)
    target = scene.targets.get(("plain ratio", 0)) if text.ask is _drawing else None
    yield ratio_row(f"{text.what}: with to without", on, off, target, GROUP)


def longest_gap(answer: Answer) -> float:
    """Seconds without a new piece of it at most, between its first token and its end."""
    moments = [answer.sent + answer.first_token, *(mark.at for mark in answer.marks), answer.ended]
    return max(two - one for one, two in pairwise(moments))


def before_drafts(answer: Answer, plain: float) -> int:
    """Tokens of it before the first that came together with another; all where none did.

    `plain`: seconds between tokens of steps of one.
    """
    for one, two in pairwise(answer.marks):
        if two.at - one.at < TOGETHER * plain:
            return one.tokens - 1
    return len(answer.end.tokens)
