"""The engine's speed as a chat meets it, beside mlx-lm's: the same tokens, interleaved, in one process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from app.amounts import counted
from app.cli.rows import Row, ratio_row
from app.cli.session import Session
from app.cli.targets import Targets
from app.errors import AppError
from app.measure.pairs import interleave, prompt_tokens
from engine import Generate, ModelInfo, Peer

DECODE, PREFILL = "decode", "prefill and first token"
FEWEST = 2
"""Tokens generated where only the first one's time counts."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure.

    Attributes:
        contexts: tokens before those whose decode speed is measured.
        prompts: lengths of prompts whose time to the first token is measured.
        batches: numbers of sequences decoded at once, each behind a prompt of the shortest context.
        cached: tokens in pages or a cache already, and new ones behind them; None leaves this out.
        pairs: measurements of each side, taken in turns after one that does not count.
        decoded: tokens generated for a decode speed.
    """

    contexts: tuple[int, ...]
    prompts: tuple[int, ...]
    batches: tuple[int, ...]
    cached: tuple[int, int] | None
    pairs: int
    decoded: int

    @property
    def longest(self) -> int:
        """Most tokens that one sequence holds, prompt and answer."""
        requests = [length + self.generated(length) for length in (*self.contexts, *self.prompts)]
        return max((*requests, sum(self.cached or ()) + 1))

    def generated(self, length: int) -> int:
        """Tokens to generate behind a prompt of `length`."""
        return self.decoded if length in self.contexts else FEWEST


@dataclass(frozen=True, slots=True)
class Sample:
    """One completion: seconds to the first token, tokens per second after it, and the tokens."""

    ttft_s: float
    decode_tps: float
    tokens: tuple[int, ...]


Runner = Callable[[tuple[int, ...], int], Sample]


def check_plan(plan: Plan, model: ModelInfo) -> None:
    """Raises AppError when a prompt and its answer do not fit the model's context."""
    if plan.longest > model.context_length:
        raise AppError(
            f"{counted(plan.longest, 'token')} do not fit {model.name}'s context of "
            f"{model.context_length:,}; give shorter --contexts, --prompts and --cached, or fewer --decode"
        )


def engine_runner(session: Session) -> Runner:
    """Completions by the loaded engine."""

    def run(prompt: tuple[int, ...], count: int) -> Sample:
        command = Generate("", tokens=prompt, max_tokens=count, ignore_eos=True)
        finished = session.complete(command, lambda event: None)
        if session.is_interrupted:  # whether it was cancelled or had just ended
            raise KeyboardInterrupt
        return Sample(finished.timing.ttft_ms / 1000, finished.timing.decode_tps, finished.tokens)

    return run


def peer_runner(peer: Peer) -> Runner:
    """Completions by mlx-lm."""

    def run(prompt: tuple[int, ...], count: int) -> Sample:
        done = peer.run(prompt, count)
        return Sample(done.ttft_s, done.decode_tps, done.tokens)

    return run


def measure(
    plan: Plan, ours: Runner, theirs: Runner | None, targets: Targets, say: Callable[[str], None]
) -> list[Row]:
    """The rows of every context and prompt; `say` hears what is going on."""
    decode: list[Row] = []
    prefill: list[Row] = []
    for length in sorted({*plan.contexts, *plan.prompts}):
        mine, peers = _samples(plan, length, ours, theirs, say)
        if length in plan.contexts:
            decode += _decode_rows(length, mine, peers, targets)
        if length in plan.prompts:
            prefill += _prefill_rows(length, mine, peers, targets)
    return decode + prefill


def _samples(
    plan: Plan, length: int, ours: Runner, theirs: Runner | None, say: Callable[[str], None]
) -> tuple[list[Sample], list[Sample]]:
    count = plan.generated(length)
    return interleave(
        plan.pairs,
        lambda number: ours(prompt_tokens(length, number), count),
        None if theirs is None else lambda number: theirs(prompt_tokens(length, number), count),
        lambda number: say(f"{counted(length, 'token')} of prompt: pair {number} of {plan.pairs}"),
    )


def _decode_rows(
    context: int, mine: Sequence[Sample], peers: Sequence[Sample], targets: Targets
) -> list[Row]:
    at = f"decode at {counted(context, 'token')}"
    speeds = tuple(sample.decode_tps for sample in mine)
    rows = [Row(at, "tok/s", speeds, targets.get(("decode", context)), DECODE)]
    if peers:
        their_speeds = tuple(sample.decode_tps for sample in peers)
        same = tuple(agreement(one.tokens, other.tokens) for one, other in zip(mine, peers, strict=True))
        target = targets.get(("decode ratio", context))
        rows += [
            Row(f"{at}, mlx-lm", "tok/s", their_speeds, group=DECODE),
            ratio_row(f"{at}, ours to mlx-lm", speeds, their_speeds, target, DECODE),
            Row(f"same tokens at {counted(context, 'token')}", "share", same, group=DECODE),
        ]
    return rows


def _prefill_rows(
    length: int, mine: Sequence[Sample], peers: Sequence[Sample], targets: Targets
) -> list[Row]:
    at = f"at {counted(length, 'token')}"
    first = tuple(sample.ttft_s for sample in mine)
    rates = tuple(length / seconds for seconds in first)
    rows = [
        Row(f"first token {at}", "s", first, targets.get(("first token", length)), PREFILL),
        Row(f"prefill {at}", "tok/s", rates, group=PREFILL),
    ]
    if peers:
        their_rates = tuple(length / sample.ttft_s for sample in peers)
        target = targets.get(("prefill ratio", length))
        rows += [
            Row(f"prefill {at}, mlx-lm", "tok/s", their_rates, group=PREFILL),
            ratio_row(f"prefill {at}, ours to mlx-lm", rates, their_rates, target, PREFILL),
        ]
    return rows


def agreement(ours: Sequence[int], theirs: Sequence[int]) -> float:
    """The share of tokens before the first that differs: greedy paths part for good where two logits tie."""
    for position, (one, other) in enumerate(zip(ours, theirs, strict=True)):
        if one != other:
            return position / len(ours)
    return 1.0
