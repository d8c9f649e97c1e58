"""The engine's speed beside mlx-lm's: the same tokens, interleaved, in one process."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from app.cli.rows import Row, Target, ratios
from app.cli.session import Session
from app.errors import AppError
from engine import Generate, ModelInfo, Peer

PARITY = Target("at least", 0.95)
GUIDE_DECODE = Target("at least", 150)
GUIDE_FIRST_TOKEN = Target("at most", 0.15)
GUIDE_CONTEXT = 200
"""The prompt length for which the guide's own targets on a CPU hold."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure.

    Attributes:
        contexts: prompt lengths in tokens.
        pairs: measurements of each side, taken in turns after one that does not count.
        decoded: tokens generated in each.
    """

    contexts: tuple[int, ...]
    pairs: int
    decoded: int


@dataclass(frozen=True, slots=True)
class Sample:
    """One completion: seconds to the first token, tokens per second after it, and the tokens."""

    ttft_s: float
    decode_tps: float
    tokens: tuple[int, ...]


Runner = Callable[[tuple[int, ...], int], Sample]


def check_plan(plan: Plan, model: ModelInfo) -> None:
    """Raises AppError when a prompt and its answer do not fit the model's context."""
    longest = max(plan.contexts) + plan.decoded
    if longest > model.context_length:
        raise AppError(
            f"{longest} tokens do not fit {model.name}'s context of {model.context_length}; "
            "give shorter --contexts or fewer --decode"
        )


def engine_runner(session: Session) -> Runner:
    """Completions by the loaded engine."""

    def run(prompt: tuple[int, ...], count: int) -> Sample:
        command = Generate("", tokens=prompt, max_tokens=count, ignore_eos=True)
        finished = session.complete(command, lambda event: None)
        if finished.reason == "cancelled":
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
    plan: Plan, ours: Runner, theirs: Runner | None, is_guide_on_cpu: bool, say: Callable[[str], None]
) -> Iterator[Row]:
    """The rows of every context; `say` hears what is going on."""
    for context in plan.contexts:
        prompt = _prompt(context)
        mine: list[Sample] = []
        peers: list[Sample] = []
        for number in range(plan.pairs + 1):  # the first pair warms up
            say(f"{context} tokens of context: pair {number} of {plan.pairs}")
            # Who goes first alternates, so that neither always meets the other's caches.
            for run, samples in _in_turns(number, (ours, mine), (theirs, peers)):
                sample = run(prompt, plan.decoded)
                if number:
                    samples.append(sample)
        targets = is_guide_on_cpu and context == GUIDE_CONTEXT
        yield from _rows(context, mine, peers, targets)


def _in_turns(
    number: int, ours: tuple[Runner, list[Sample]], theirs: tuple[Runner | None, list[Sample]]
) -> Iterator[tuple[Runner, list[Sample]]]:
    both = (ours, theirs) if number % 2 else (theirs, ours)
    for run, samples in both:
        if run is not None:
            yield run, samples


def _prompt(length: int) -> tuple[int, ...]:
    """Token ids that every vocabulary of ours has, the same in every run."""
    draw = random.Random(length)
    return tuple(draw.randrange(10, 250) for _ in range(length))


def _rows(context: int, mine: Sequence[Sample], peers: Sequence[Sample], targets: bool) -> Iterator[Row]:
    decode, first = [s.decode_tps for s in mine], [s.ttft_s for s in mine]
    prefill = [context / seconds for seconds in first]
    at = f"at {context} tokens"
    yield Row(f"decode {at}", "tok/s", tuple(decode), GUIDE_DECODE if targets else None)
    yield Row(f"prefill {at}", "tok/s", tuple(prefill))
    yield Row(f"first token {at}", "s", tuple(first), GUIDE_FIRST_TOKEN if targets else None)
    if peers:
        their_decode, their_first = [s.decode_tps for s in peers], [s.ttft_s for s in peers]
        yield Row(f"decode {at}, mlx-lm", "tok/s", tuple(their_decode))
        yield Row(f"prefill {at}, mlx-lm", "tok/s", tuple(context / seconds for seconds in their_first))
        yield Row(f"decode {at}, ours to mlx-lm", "x", ratios(decode, their_decode), PARITY)
        yield Row(f"prefill {at}, ours to mlx-lm", "x", ratios(their_first, first), PARITY)
        same = [_agreement(one.tokens, other.tokens) for one, other in zip(mine, peers, strict=True)]
        yield Row(f"same tokens {at}", "share", tuple(same))


def _agreement(ours: Sequence[int], theirs: Sequence[int]) -> float:
    """The share of tokens before the first that differs: greedy paths part for good where two logits tie."""
    for position, (one, other) in enumerate(zip(ours, theirs, strict=True)):
        if one != other:
            return position / len(ours)
    return 1.0
