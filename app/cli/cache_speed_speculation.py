"""Guessing ahead, on and off in turns: where an answer copies from its prompt, and where it does not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from app.cli.cache_speed_scene import Scene
from app.cli.rows import Row, ratio_row
from app.cli.targets import Quantity
from app.measure.engine_client import EngineClient
from app.measure.pairs import interleave, prompt_tokens
from app.model_location import model_title
from engine import Generate, Message, SamplingParams

GROUP = "guessing ahead"
REPEATED = "A page holds sixteen tokens, and a chat holds as many pages as it needs. " * 4
"""A model with real weights goes on by copying it."""
QUESTION = "How do I edit a message that I have sent, and what is kept of the old one?"
PROMPT = 128
"""Tokens of the prompt that nothing repeats."""
FLAT = 5.0
"""A temperature at which hardly a token is likelier than another, so that nothing is said twice."""

Ask = Callable[[int, int], Generate]
"""The request of a pair, by its number and the tokens to generate."""


def measure_speculation(scene: Scene) -> Iterator[Row]:
    """Rows of each text, decoded with and without."""
    with (
        EngineClient(replace(scene.settings, speculation=True)) as guessing,
        EngineClient(scene.settings) as plain,
    ):
        is_chat = guessing.load(scene.text_model).has_chat_template
        plain.load(scene.text_model)
        texts: list[tuple[str, Ask, Quantity]] = [("text that copies its prompt", _copying, "copying ratio")]
        if is_chat:
            texts.append(("an answer to a question", _answering, "plain ratio"))
        texts.append(("text drawn at random", _drawing, "plain ratio"))
        for client in (guessing, plain):  # nothing is guessed until then; a compiler holds up both
            client.run(_copying(0, 1))
            client.wait_until_warm()
        for what, ask, quantity in texts:
            yield from _rows(
                scene, f"{what} ({model_title(scene.text_model)})", ask, quantity, guessing, plain
            )


def _rows(
    scene: Scene, what: str, ask: Ask, quantity: Quantity, guessing: EngineClient, plain: EngineClient
) -> Iterator[Row]:
    def side(client: EngineClient) -> Callable[[int], float]:
        return lambda number: client.run(ask(number, 4 * scene.plan.decoded)).end.timing.decode_tps

    pairs = scene.plan.pairs
    on, off = interleave(
        pairs, side(guessing), side(plain), lambda number: scene.say(f"{what}: pair {number} of {pairs}")
    )
    yield Row(f"{what}, guessing", "tok/s", tuple(on), group=GROUP)
    yield Row(f"{what}, not guessing", "tok/s", tuple(off), group=GROUP)
    yield ratio_row(f"{what}, guessing to not", on, off, scene.targets.get((quantity, 0)), GROUP)


def _copying(number: int, count: int) -> Generate:
    return Generate("", prompt=REPEATED, max_tokens=count, ignore_eos=True)


def _answering(number: int, count: int) -> Generate:
    return Generate("", messages=(Message("user", QUESTION),), max_tokens=count)


def _drawing(number: int, count: int) -> Generate:
    sampling = SamplingParams(temperature=FLAT, seed=number)
    tokens = prompt_tokens(PROMPT, number, 5)
    return Generate("", tokens=tokens, sampling=sampling, max_tokens=count, ignore_eos=True)
