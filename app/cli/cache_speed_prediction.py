"""How often the time to the first token was known before it was sent."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from app.cli.cache_speed_scene import Scene, new_tokens, request
from app.cli.rows import Row
from app.measure.engine_client import EngineClient
from engine import Generate

GROUP = "first token predicted"
NEAR = 0.25
"""How far a prediction may be from what came, as a part of that."""
LEARNING = 8
"""Requests from which the engine learns first; a chat that has begun knows as many."""
_OTHERS = 1_000_000
"""From this number on: prompts of requests like others."""


def measure_prediction(scene: Scene) -> Iterator[Row]:
    """Rows of the share that was near, and of what came for each second that was predicted.

    How near the machine allows: each request is followed by one like it, of as many tokens in memory and as
    many new ones, of which the same is asked.
    """
    draw = random.Random(1)
    told: list[tuple[float | None, float]] = []
    twice: list[tuple[float, float]] = []
    with EngineClient(scene.settings) as client:
        client.load(scene.model)
        known: list[tuple[int, ...]] = []
        client.run(_request(*_drawn(draw, known, scene.plan.context), -1, known))
        client.wait_until_warm()
        for number in range(LEARNING + scene.plan.requests):
            scene.say(f"predicting: request {number + 1} of {LEARNING + scene.plan.requests}")
            kept, length = _drawn(draw, known, scene.plan.context)
            command = _request(kept, length, number, known)
            predicted = client.predict(command)
            answer = client.run(command)
            if number >= LEARNING:
                again = client.run(_request(kept, length, _OTHERS + number, []))
                told.append((predicted.seconds, answer.first_token))
                twice.append((again.first_token, answer.first_token))
    near = _share_near(told)
    target = scene.targets.get(("predicted", 0))
    yield Row(f"within {NEAR:.0%}, of {len(told)}", "share", (near,), target, GROUP)
    yield Row(
        f"a request like it right behind, within {NEAR:.0%}", "share", (_share_near(twice),), group=GROUP
    )
    ratios = tuple(measured / predicted for predicted, measured in told if predicted)
    if ratios:
        yield Row("measured to predicted", "x", ratios, group=GROUP)


def _share_near(told: Sequence[tuple[float | None, float]]) -> float:
    return sum(is_near(predicted, measured) for predicted, measured in told) / len(told)


def is_near(predicted: float | None, measured: float) -> bool:
    """Whether the prediction was right enough; none at all was not."""
    return predicted is not None and abs(predicted - measured) <= NEAR * measured


def _drawn(
    draw: random.Random, known: Sequence[tuple[int, ...]], context: int
) -> tuple[tuple[int, ...], int]:
    """The beginning of an earlier prompt, as often as not empty, and how many new tokens come behind it.

    Both together have up to `context` tokens.
    """
    kept: tuple[int, ...] = ()
    if known and draw.random() < 0.5:
        earlier = draw.choice(known)
        kept = earlier[: draw.randrange(len(earlier))]
    longest = max(2, context // 2 - len(kept)) if not kept else max(2, context - len(kept))
    return kept, max(1, int(longest ** draw.random()))


def _request(kept: tuple[int, ...], length: int, number: int, known: list[tuple[int, ...]]) -> Generate:
    """For one token behind so many new ones, other ones for each `number`; its prompt is `known` then."""
    prompt = (*kept, *new_tokens(length, number, 6))
    known.append(prompt)
    return request(prompt, 1, chat="")
