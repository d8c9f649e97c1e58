"""The runner driven without the engine's thread, to measure what no single request shows."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import mlx.core as mx

from engine.bench.batcher_bench import StepCosts, step_costs
from engine.kernels.launch_names import launches_of
from engine.kv.page_table import PageTable
from engine.loading.model import load_model
from engine.machine.machine import device_kind
from engine.runner import Runner
from engine.settings import EngineSettings


@dataclass(frozen=True, slots=True)
class BatchRun:
    """Several sequences continued at once.

    Attributes:
        tokens: the generated ids, sequence by sequence.
        decode_tps: tokens per second of all sequences together, after the first token of each.
        launches: kernels and MLX operations launched for a step; None where they are not counted.
        own_share: the part of them that are this project's kernels; None likewise.
    """

    tokens: tuple[tuple[int, ...], ...]
    decode_tps: float
    launches: float | None = None
    own_share: float | None = None


class RunnerBench:
    """A model on the calling thread; it belongs to that thread, as MLX's streams do."""

    def __init__(self, path: Path, settings: EngineSettings | None = None) -> None:
        """Load the model folder `path`. Raises ModelError."""
        settings = settings or EngineSettings()
        self._model = load_model(path, settings, lambda done, total: None)
        self._chunk = settings.prefill_chunk
        self._runner = Runner(self._model)

    def run_batch(self, prompts: Sequence[Sequence[int]], count: int) -> BatchRun:
        """Continue all `prompts` at once, greedily, by exactly `count` >= 2 tokens each.

        Every token reaches the host, one step behind the device where the runner looks ahead.
        """
        runner, tables = self._runner, [PageTable() for _ in prompts]
        firsts = [self._next_token(table, prompt) for table, prompt in zip(tables, prompts, strict=True)]
        tokens, steps = mx.array(firsts, dtype=mx.uint32), list[list[int]]()
        before = runner.launches.copy()
        began = time.perf_counter()
        for _ in range(count - 1):
            following, _ = runner.pick(runner.decode(tables, tokens))
            mx.async_eval(following)
            steps.append(cast("list[int]", tokens.tolist()))
            if not runner.looks_ahead:
                mx.eval(following)
            tokens = following
        steps.append(cast("list[int]", tokens.tolist()))
        seconds = time.perf_counter() - began
        for table in tables:
            self._model.memory.free(table)
        launches, own_share = _counted(runner.launches - before)
        return BatchRun(
            tokens=tuple(zip(*steps, strict=True)),
            decode_tps=len(prompts) * (count - 1) / seconds,
            launches=None if launches is None else launches / (count - 1),
            own_share=own_share,
        )

    def host_seconds(self, prompt: Sequence[int], steps: int) -> float | None:
        """Seconds that the calling thread takes to build a decode step and hand it to the device, on average.

        The device is idle when a step begins, so that no wait for it is counted. None on a CPU, where
        handing over is computing.
        """
        if device_kind() == "CPU":
            return None
        table, seconds = PageTable(), 0.0
        tokens = mx.array([self._next_token(table, prompt)], dtype=mx.uint32)
        for _ in range(steps):
            mx.eval(tokens)
            began = time.perf_counter()
            tokens, _ = self._runner.pick(self._runner.decode([table], tokens))
            mx.async_eval(tokens)
            seconds += time.perf_counter() - began
        mx.eval(tokens)
        self._model.memory.free(table)
        return seconds / steps

    def step_costs(self, batch: int, steps: int) -> StepCosts:
        """What the scheduler, the pager and taking tokens in cost the host at a batch of that size."""
        return step_costs(self._model, batch, steps)

    def first_token_after(self, cached: Sequence[int], new: Sequence[int]) -> float:
        """Seconds to the first token of a prompt whose beginning, `cached`, is in pages already."""
        table = PageTable()
        self._next_token(table, cached)
        began = time.perf_counter()
        self._next_token(table, new)
        seconds = time.perf_counter() - began
        self._model.memory.free(table)
        return seconds

    def _next_token(self, table: PageTable, tokens: Sequence[int]) -> int:
        """The likeliest token after `tokens` behind those of `table`, computed in chunks as for a request."""
        while len(tokens) > self._chunk:
            self._runner.prefill(table, tokens[: self._chunk])
            tokens = tokens[self._chunk :]
        return cast(int, mx.argmax(self._runner.next_logits(table, tokens)).item())


def _counted(launched: Counter[str]) -> tuple[int | None, float | None]:
    """How many launches there were and which share is ours; None without a count."""
    total = launched.total()
    if not total:
        return None, None
    return total, launches_of("ours", launched) / total
