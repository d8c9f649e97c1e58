"""Speed that no single chat shows, beside mlx-lm's: sequences decoded together, prompts cached in part."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from statistics import fmean
from typing import Protocol

from app.amounts import counted
from app.cli.rows import Row, ratio_row
from app.cli.speed import Plan, agreement
from app.cli.targets import Targets
from app.measure.pairs import interleave, prompt_tokens
from engine import BatchRun, Peer, RunnerBench

BATCH = "decode steps of one sequence and more"
CACHED = "prompts cached in part"


class Batches(Protocol):
    """Continues several prompts at once, each by exactly `count` tokens."""

    def run_batch(self, prompts: Sequence[Sequence[int]], count: int) -> BatchRun: ...


def loads(plan: Plan) -> tuple[tuple[int, int], ...]:
    """Sequences and tokens of each that a RunnerBench must hold for `plan`; empty when none is needed."""
    batches = tuple((batch, min(plan.contexts) + plan.decoded) for batch in plan.batches)
    return batches + (((1, sum(plan.cached) + 1),) if plan.cached else ())


def measure_batches(
    plan: Plan, ours: RunnerBench, theirs: Peer | None, targets: Targets, say: Callable[[str], None]
) -> Iterator[Row]:
    """Rows of the prompt cached in part, of every batch and of the host's time; `say` hears of progress."""
    if plan.cached:
        yield from _cached_rows(plan.pairs, plan.cached, ours, theirs, targets, say)
    for batch in plan.batches:
        yield from batch_rows(plan, batch, ours, theirs, targets, say)
    if plan.batches:
        yield from _host_rows(plan, ours, targets, say)


def _cached_rows(
    pairs: int,
    lengths: tuple[int, int],
    ours: RunnerBench,
    theirs: Peer | None,
    targets: Targets,
    say: Callable[[str], None],
) -> Iterator[Row]:
    cached, new = lengths

    def timed(side: RunnerBench | Peer) -> Callable[[int], float]:
        return lambda number: side.first_token_after(
            prompt_tokens(cached, number), prompt_tokens(new, number, 1)
        )

    at = f"{counted(new, 'new token')} on {cached} cached"
    mine, peers = interleave(
        pairs,
        timed(ours),
        timed(theirs) if theirs else None,
        lambda number: say(f"{at}: pair {number} of {pairs}"),
    )
    yield Row(f"first token, {at}", "s", tuple(mine), group=CACHED)
    if peers:
        target = targets.get(("cached ratio", new))
        yield Row(f"first token, {at}, mlx-lm", "s", tuple(peers), group=CACHED)
        rates, their_rates = ([new / seconds for seconds in side] for side in (mine, peers))
        yield ratio_row(f"prefill of {at}, ours to mlx-lm", rates, their_rates, target, CACHED)


def batch_rows(
    plan: Plan,
    batch: int,
    ours: Batches,
    theirs: Peer | None,
    targets: Targets,
    say: Callable[[str], None],
) -> Iterator[Row]:
    """Rows of `batch` sequences at once, each behind a prompt of the plan's shortest context."""
    context = min(plan.contexts)
    at = f"batch of {batch} at {counted(context, 'token')}"

    def prompts(number: int) -> list[tuple[int, ...]]:
        return [prompt_tokens(context, number, sequence) for sequence in range(batch)]

    def side(runner: Batches) -> Callable[[int], BatchRun]:
        return lambda number: runner.run_batch(prompts(number), plan.decoded)

    mine, peers = interleave(
        plan.pairs,
        side(ours),
        side(theirs) if theirs else None,
        lambda number: say(f"{at}: pair {number} of {plan.pairs}"),
    )
    speeds = tuple(run.decode_tps for run in mine)
    yield Row(at, "tok/s", speeds, group=BATCH)
    yield from _launch_rows(at, batch, mine, targets)
    if peers:
        their_speeds = tuple(run.decode_tps for run in peers)
        yield Row(f"{at}, mlx-lm", "tok/s", their_speeds, group=BATCH)
        target = targets.get(("batch ratio", batch))
        yield ratio_row(f"{at}, ours to mlx-lm", speeds, their_speeds, target, BATCH)
        same = tuple(_batch_agreement(one, other) for one, other in zip(mine, peers, strict=True))
        yield Row(f"same tokens, {at}", "share", same, group=BATCH)


def _host_rows(plan: Plan, ours: RunnerBench, targets: Targets, say: Callable[[str], None]) -> Iterator[Row]:
    context = min(plan.contexts)
    at = f"host time of a step at {counted(context, 'token')}"
    found, _ = interleave(
        plan.pairs,
        lambda number: ours.host_seconds(prompt_tokens(context, number), plan.decoded),
        None,
        lambda number: say(f"{at}: pair {number} of {plan.pairs}"),
    )
    host = tuple(1000 * seconds for seconds in found if seconds is not None)
    if host:
        yield Row(at, "ms", host, targets.get(("host time", 1)), BATCH)


def _launch_rows(at: str, batch: int, runs: Sequence[BatchRun], targets: Targets) -> Iterator[Row]:
    launches = tuple(run.launches for run in runs if run.launches is not None)
    own = tuple(run.own_share for run in runs if run.own_share is not None)
    if launches:
        yield Row(f"launches of a step, {at}", "", launches, targets.get(("launches", batch)), BATCH)
    if own:
        yield Row(f"of them our kernels, {at}", "share", own, targets.get(("own share", batch)), BATCH)


def _batch_agreement(ours: BatchRun, theirs: BatchRun) -> float:
    return fmean(agreement(one, other) for one, other in zip(ours.tokens, theirs.tokens, strict=True))
