"""How often the time to the first token was known before it was sent."""

from __future__ import annotations

import random
from collections.abc import Iterator

from app.cli.cache_speed_scene import Scene, new_tokens, request
from app.cli.rows import Row
from app.measure.engine_client import EngineClient
from engine import Generate

GROUP = "first token predicted"
NEAR = 0.25
"""How far a prediction may be from what came, as a part of that."""
LEARNING = 8
"""Requests from which the engine learns first; a chat that has begun knows as many."""


def measure_prediction(scene: Scene) -> Iterator[Row]:
    """Rows of the share that was near, and of what came for each second that was predicted."""
    draw = random.Random(1)
    told: list[tuple[float | None, float]] = []
    with EngineClient(scene.settings) as client:
        client.load(scene.model)
        known: list[tuple[int, ...]] = []
        client.run(_random_request(draw, known, scene.plan.context, -1))
        client.wait_until_warm()
        for number in range(LEARNING + scene.plan.requests):
            scene.say(f"predicting: request {number + 1} of {LEARNING + scene.plan.requests}")
            command = _random_request(draw, known, scene.plan.context, number)
            predicted = client.predict(command)
            answer = client.run(command)
            if number >= LEARNING:
                told.append((predicted.seconds, answer.first_token))
    near = [float(is_near(predicted, measured)) for predicted, measured in told]
    target = scene.targets.get(("predicted", 0))
    yield Row(f"within {NEAR:.0%}, of {len(told)}", "share", (sum(near) / len(near),), target, GROUP)
    ratios = tuple(measured / predicted for predicted, measured in told if predicted)
    if ratios:
        yield Row("measured to predicted", "x", ratios, group=GROUP)


def is_near(predicted: float | None, measured: float) -> bool:
    """Whether the prediction was right enough; none at all was not."""
    return predicted is not None and abs(predicted - measured) <= NEAR * measured


def _random_request(draw: random.Random, known: list[tuple[int, ...]], context: int, number: int) -> Generate:
    """A prompt of up to `context` tokens, as often as not behind the beginning of an earlier one."""
    kept: tuple[int, ...] = ()
    if known and draw.random() < 0.5:
        earlier = draw.choice(known)
        kept = earlier[: draw.randrange(len(earlier))]
    longest = max(2, context // 2 - len(kept)) if not kept else max(2, context - len(kept))
    length = max(1, int(longest ** draw.random()))
    prompt = (*kept, *new_tokens(length, number, 6))
    known.append(prompt)
    return request(prompt, 1, chat="")
