"""Guessing ahead, on and off in turns: where an answer copies from its prompt, and where it does not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from app.cli.cache_speed_scene import Scene
from app.cli.rows import Row, ratio_row
from app.cli.targets import Quantity
from app.measure.engine_client import Answer, EngineClient
from app.measure.pairs import interleave, prompt_tokens
from app.model_location import model_title
from engine import Generate, Message, SamplingParams

GROUP = "guessing ahead"
REPEATED = "A page holds sixteen tokens, and a chat holds as many pages as it needs. " * 4
"""A model with real weights goes on by copying it."""
QUESTIONS = (
    "How do I edit a message that I have sent, and what is kept of the old one?",
    "What is a page of the cache?",
    "How do I get another model?",
    "Where are my chats stored?",
)
"""Whose answers are measured together: the built-in model's are short."""
PROMPT = 128
"""Tokens of the prompt that nothing repeats."""
FLAT = 5.0
"""A temperature at which hardly a token is likelier than another, so that nothing is said twice."""

PIECES = 4
"""Answers of a sample that is to show small differences, each whole: guessing may lose late in one."""


@dataclass(frozen=True, slots=True)
class _Text:
    """What is decoded: `ask` gives the request by its number and the tokens to generate.

    A sample is `pieces` requests together.
    """

    what: str
    ask: Callable[[int, int], Generate]
    pieces: int
    quantity: Quantity


def measure_speculation(scene: Scene) -> Iterator[Row]:
    """Rows of each text, decoded with and without.

    By one engine: two of them, and both without guessing, differ by 10 % and more for seconds, by where the
    system lets their threads run.
    """
    with EngineClient(replace(scene.settings, speculation=True)) as client:
        is_chat = client.load(scene.text_model).has_chat_template
        texts = [_Text("text that copies its prompt", _copying, 1, "copying ratio")]
        if is_chat:
            texts.append(_Text("answers to questions", _answering, PIECES, "plain ratio"))
        texts.append(_Text("text drawn at random", _drawing, PIECES, "plain ratio"))
        client.run(_copying(0, 1))  # nothing is guessed until then; a compiler holds all up
        client.wait_until_warm()
        for text in texts:
            yield from _rows(scene, text, client)


def _rows(scene: Scene, text: _Text, client: EngineClient) -> Iterator[Row]:
    def side(*, speculation: bool) -> Callable[[int], Answer]:
        return lambda number: client.run(replace(text.ask(number, count), speculation=speculation))

    what = f"{text.what} ({model_title(scene.text_model)})"
    count, answers = 4 * scene.plan.decoded, scene.plan.pairs * text.pieces
    guessing, plain = interleave(
        answers,
        side(speculation=True),
        side(speculation=False),
        lambda number: scene.say(f"{what}: answers {number} of {answers}"),
    )
    on, off = rates_of(guessing, text.pieces), rates_of(plain, text.pieces)
    if not all(off):
        scene.say(f"{what}: not measured, as the model ends its answers at once")
        return
    yield Row(f"{what}, guessing", "tok/s", tuple(on), group=GROUP)
    yield Row(f"{what}, not guessing", "tok/s", tuple(off), group=GROUP)
    yield ratio_row(f"{what}, guessing to not", on, off, scene.targets.get((text.quantity, 0)), GROUP)


def rates_of(answers: Sequence[Answer], pieces: int) -> list[float]:
    """Tokens per second of each `pieces` answers together, behind the first token of each; 0 for no more."""
    rates: list[float] = []
    for first in range(0, len(answers), pieces):
        ends = [answer.end for answer in answers[first : first + pieces]]
        tokens = [len(end.tokens) - 1 for end in ends]
        seconds = sum(count / end.timing.decode_tps for count, end in zip(tokens, ends, strict=True) if count)
        rates.append(sum(tokens) / seconds if seconds else 0.0)
    return rates


def _copying(number: int, count: int) -> Generate:
    return Generate("", prompt=REPEATED, max_tokens=count, ignore_eos=True)


def _answering(number: int, count: int) -> Generate:
    question = QUESTIONS[number % len(QUESTIONS)]
    return Generate("", messages=(Message("user", question),), max_tokens=count)


def _drawing(number: int, count: int) -> Generate:
    sampling = SamplingParams(temperature=FLAT, seed=number)
    tokens = prompt_tokens(PROMPT, number, 5)
    return Generate("", tokens=tokens, sampling=sampling, max_tokens=count, ignore_eos=True)
