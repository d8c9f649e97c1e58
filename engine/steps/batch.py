"""One step of the running sequences: what goes into it, sent to the device, and read when it is done."""

from __future__ import annotations

import time
from collections.abc import Sequence as Many
from dataclasses import dataclass

import mlx.core as mx

from engine.pacing.step_times import Sending
from engine.pacing.ways import Way
from engine.requests.request import Sequence
from engine.runner import Runner
from engine.sampling.draws import Drawing, Draws, draw
from engine.speculation.draft import Draft
from engine.speculation.verify import Verification, verify
from engine.steps.parts import Part


@dataclass(frozen=True, slots=True)
class Slice:
    """What a step computes of a chunk of a sequence's prompt.

    Attributes:
        begin, tokens: the chunk is tokens begin … begin+tokens-1.
        share: of the model's layers; 0 where only what they read was made ready.
        done: tokens of the prompt that count as done behind it; of the chunk as large a share as of layers.
        way: how it goes through the model.
        ends: whether the chunk is through with it; `is_last`: and so is the prompt, and a token is drawn.
        waits: what is evaluated when it is done.
    """

    sequence: Sequence
    begin: int
    tokens: int
    share: float
    done: int
    way: Way
    ends: bool
    is_last: bool
    waits: tuple[mx.array, ...] = ()


@dataclass(frozen=True, slots=True)
class Sent:
    """A step that the device is at, or has done.

    Attributes:
        sequences: whose next tokens `draws` are, in order.
        draws: None when no prompt came to its end and nobody decodes, and for a draft.
        logits: what was drawn from, (rows, vocab), where somebody asks for log-probabilities.
        answers: how many sequences decode in it.
        slice: what it computes of a prompt, but for `prompt_ends`: last tokens of prompts that are computed
            like an answer's.
        draft: what was guessed of the only sequence, and `check`, whether it was right.
        waits: what is evaluated when all of it is done.
        sending: when it was built and sent, by time.perf_counter.
    """

    sequences: tuple[Sequence, ...]
    draws: Draws | None
    logits: mx.array | None
    answers: int
    slice: Slice | None
    waits: tuple[mx.array, ...]
    sending: Sending
    prompt_ends: int = 0
    draft: Draft | None = None
    check: Verification | None = None

    @property
    def everybody(self) -> tuple[Sequence, ...]:
        """Whose tokens it computes, or draws."""
        return self.sequences if self.slice is None else (*self.sequences, self.slice.sequence)

    @property
    def chunk(self) -> Slice | None:
        """The slice with which prompt tokens are computed; None where more of their layers remain."""
        return self.slice if self.slice is not None and self.slice.ends else None

    def read(self) -> tuple[list[int], list[float]]:
        """Wait for it: tokens, and masses as in Draws, of `sequences`; nothing for a draft."""
        if self.draws is None:
            mx.eval(self.waits)
            return [], []
        return self.draws.read()


def send(
    runner: Runner,
    decoding: Many[Sequence],
    filling: Sequence | None,
    layers: int,
    before: Sent | None,
    patience: float = 0.0,
) -> Sent:
    """Send a step to the device: one token of each of `decoding`, and layers of a chunk of a prompt.

    Args:
        decoding: room in pages is there. Those whose last token is in `before`, not read yet, come first.
        filling: whose chunk that is, and `layers`, how many of them at most; all where it is mixed.
        before: the step that is in flight.
        patience: seconds to wait for a chunk in a process of its own, until some of it is computed.
    """
    began = time.perf_counter()
    heads, parts = list(decoding), list[mx.array]()
    is_mixed = bool(decoding) and filling is not None and filling.goes(Way.MIXED)
    piece, behind = (None, None) if filling is None or is_mixed else _slice(runner, filling, layers, patience)
    flying = {sequence: row for row, sequence in enumerate(before.sequences)} if before else {}
    prompt_ends = sum(not sequence.generated for sequence in decoding if not sequence.is_in_flight)
    if decoding:
        answers = [Part(sequence.table) for sequence in decoding]
        inputs = _inputs(runner, decoding, flying, before)
        if filling is not None and is_mixed:
            piece, logits = _mixed(runner, answers, inputs, filling)
        else:
            logits = runner.step(answers, inputs)
        parts.append(logits)
    if piece is not None and piece.is_last:
        heads.append(piece.sequence)
        parts += [behind] if behind is not None else []
    logits = parts[0] if len(parts) == 1 else mx.concatenate(parts) if parts else None
    # A prompt that was cached but for its last token is decoded like an answer; its answers begin there too.
    origins = [(row, sequence) for row, head in enumerate(heads) for sequence in head.drawn_together]
    drawn = [sequence for _, sequence in origins]
    draws, waits = None, (*runner.results, *(piece.waits if piece is not None else ()))
    if logits is None:
        mx.async_eval(waits)
    else:
        if len(drawn) > len(heads):  # several answers begin behind one prompt
            logits = logits[mx.array([row for row, _ in origins])]
        draws = _draw(runner, logits, drawn, flying, before)
        mx.async_eval(draws.tokens, draws.masses, waits)
    wanted = _asked_for(logits, drawn)
    sending = Sending(began, time.perf_counter())
    return Sent(tuple(drawn), draws, wanted, len(decoding), piece, waits, sending, prompt_ends)


def _slice(
    runner: Runner, sequence: Sequence, layers: int, patience: float
) -> tuple[Slice | None, mx.array | None]:
    """The next layers of the sequence's chunk, and its logits when they are the last."""
    filling = sequence.filling
    if filling is None:
        return None, None
    before, part = filling.layer, filling.part
    begin = part.table.length
    way = filling.way
    logits = runner.advance_aside(filling, patience) if way is Way.ASIDE else runner.advance(filling, layers)
    share, ends = (filling.layer - before) / runner.layers, logits is not None
    if ends:
        sequence.filling = None
    waits = () if filling.x is None else (filling.x,)
    is_last = ends and part.rows > 0
    done = begin + part.tokens * filling.computed // runner.layers
    return Slice(sequence, begin, part.tokens, share, done, way, ends, is_last, waits), logits


def _mixed(
    runner: Runner, answers: Many[Part], tokens: mx.array, sequence: Sequence
) -> tuple[Slice, mx.array]:
    """A token of each of `answers` and the sequence's whole chunk in one pass; logits of both, in order."""
    filling, sequence.filling = sequence.filling, None
    if filling is None:
        raise AssertionError("there is no chunk to mix")
    part = filling.part
    begin = part.table.length
    ids = mx.concatenate([tokens, runner.staging.token_ids(filling.tokens)])
    logits = runner.step([*answers, part], ids)
    end, is_last = begin + part.tokens, part.rows > 0
    return Slice(sequence, begin, part.tokens, 1.0, end, Way.MIXED, ends=True, is_last=is_last), logits


def send_draft(runner: Runner, sequence: Sequence, draft: Draft) -> Sent:
    """Send a step that checks a draft of the only sequence; room in pages is there."""
    began = time.perf_counter()
    tokens = (sequence.last_token, *draft.tokens)
    part = Part(sequence.table, len(tokens), len(tokens))
    logits = runner.step([part], runner.staging.token_ids(tokens))
    check = verify(
        logits,
        draft,
        sequence.sampler,
        sequence.generated,
        sequence.request.prompt,
        runner.pick,
        on_host=runner.draws_on_host,
    )
    waits = runner.results
    mx.async_eval(check.choices, check.mass, waits)
    logits = _asked_for(logits, [sequence])
    sending = Sending(began, time.perf_counter())
    return Sent((sequence,), None, logits, 1, None, waits, sending, 0, draft, check)


def _asked_for(logits: mx.array | None, sequences: Many[Sequence]) -> mx.array | None:
    """Logits are kept only where somebody asks for log-probabilities."""
    wanted = any(sequence.request.command.logprobs is not None for sequence in sequences)
    return logits if wanted else None


def _inputs(
    runner: Runner, decoding: Many[Sequence], flying: dict[Sequence, int], before: Sent | None
) -> mx.array:
    """The last token of each: of those that are `flying` as the step in flight draws it, then the others'."""
    rows = [flying[sequence] for sequence in decoding if sequence.is_in_flight]
    tokens = [sequence.last_token for sequence in decoding if not sequence.is_in_flight]
    if before is None or before.draws is None or not rows:
        return runner.staging.token_ids(tokens)
    drawn = before.draws.tokens
    if rows != list(range(drawn.shape[0])):
        drawn = drawn[runner.staging.integers(rows)]
    return mx.concatenate([drawn, runner.staging.token_ids(tokens)]) if tokens else drawn


def _draw(
    runner: Runner,
    logits: mx.array,
    sequences: Many[Sequence],
    flying: dict[Sequence, int],
    before: Sent | None,
) -> Draws:
    drawings: list[Drawing] = []
    for sequence in sequences:
        pending = None
        if sequence.is_in_flight and before and before.draws and not sequence.sampler.is_greedy:
            pending = before.draws.tokens[flying[sequence]]
        drawings.append(Drawing(sequence.sampler, sequence.generated, sequence.request.prompt, pending))
    return draw(logits, drawings, runner.pick, on_host=runner.draws_on_host)
