"""Many answers at once through the whole engine, and what each step costs beside the model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from app.amounts import counted
from app.cli.batch_speed import batch_rows
from app.cli.cache_speed_scene import Scene, request
from app.cli.rows import Row
from app.cli.speed import Plan
from app.errors import AppError
from app.measure.engine_client import Answer, EngineClient
from engine import BatchRun, RunnerBench

STEP = "a step beside the model"
STEPS = 200
PROMPT = 64
"""Tokens of each prompt."""
TRIES = 5
"""A program that is kept from sending its last request may find that the first has ended."""


def measure_throughput(scene: Scene) -> Iterator[Row]:
    """Rows of each batch, beside mlx-lm's where there is one."""
    context = min(PROMPT, scene.plan.context)
    plan = Plan((context,), (), scene.plan.batches, None, scene.plan.pairs, scene.plan.decoded)
    with EngineClient(scene.settings) as client:
        client.load(scene.model)
        batches = EngineBatches(client)
        for batch in plan.batches:
            yield from batch_rows(plan, batch, batches, scene.peer, scene.targets, scene.say)


def measure_steps(scene: Scene) -> Iterator[Row]:
    """Rows of the host's time for a step of the largest batch."""
    batch = max(scene.plan.batches)
    scene.say(f"steps of {counted(batch, 'answer')} that compute nothing")
    runner = RunnerBench(scene.model, scene.settings)
    costs = [runner.step_costs(batch, STEPS) for _ in range(scene.plan.pairs + 1)][1:]
    scheduling = tuple(1e6 * cost.scheduling for cost in costs)
    target = scene.targets.get(("scheduling", batch))
    yield Row(f"scheduler and pager, {counted(batch, 'answer')}", "µs", scheduling, target, STEP)
    accepting = tuple(1e6 * cost.accepting for cost in costs)
    yield Row(f"taking in the tokens, {counted(batch, 'answer')}", "µs", accepting, group=STEP)


class EngineBatches:
    """Batches as requests of one engine: what a client of it would see."""

    def __init__(self, client: EngineClient) -> None:
        self._client = client

    def run_batch(self, prompts: Sequence[Sequence[int]], count: int) -> BatchRun:
        """Continue all `prompts` at once, greedily, by `count` tokens each.

        The rate is that of the time in which all of them are decoding: each writes some more tokens than it
        is asked for, so that the first has not ended when the last begins; where it has, all are sent again.
        Raises AppError where they never decode together.
        """
        more = count + 2 * len(prompts)
        for _ in range(TRIES):
            answers = [self._client.send(request(tuple(prompt), more, chat="")) for prompt in prompts]
            for answer in answers:
                self._client.finish(answer)
            if (rate := together_rate(answers)) is not None:
                return BatchRun(tuple(answer.end.tokens[:count] for answer in answers), rate)
        raise AppError(
            f"{len(prompts)} requests at once were never all decoding in {TRIES} tries; "
            "close what else keeps this machine busy, or give a larger --decode"
        )


def together_rate(answers: Sequence[Answer]) -> float | None:
    """Tokens per second of all `answers` while all of them were decoding.

    None where that was for less than a token of each: one had ended before another began.
    """
    begin = max(answer.sent + answer.first_token for answer in answers)
    end = min(answer.ended for answer in answers)
    written = sum(answer.generated_at(end) - answer.generated_at(begin) for answer in answers)
    return written / (end - begin) if begin < end and written >= len(answers) else None
