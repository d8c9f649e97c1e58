"""Steps that nobody waits for: what they launch is compiled before a request needs it.

A GPU compiles a kernel at its first launch, anew for each number of tokens in a step, and for page tables
that are cut otherwise: tens of milliseconds by Metal, about a second by NVIDIA's compiler, for each of some
eight kernels. What every answer needs first, a prompt and a step of one token, is compiled when the model is
loaded. The rest (longer tables, chunks of long prompts where attention is made ready for each of their
lengths, steps that check drafts, those of several answers) follows at once where all of it takes a moment;
else while the engine rests, one step after the other with a pause between them, so that a request waits for
one of them at most. Until then nothing is guessed that would launch it: an answer loses nothing by that but
the guess, where a longer load would be everybody's.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence

import mlx.core as mx

from engine.kernels.kernels import Kernels
from engine.kv.in_place import table_pages
from engine.kv.in_place_chunk import chunk_rows, table_rooms
from engine.kv.memory import KVMemory
from engine.kv.page_table import PageTable
from engine.kv.pager import OutOfPages
from engine.loading.model import LoadedModel
from engine.pacing.chunking import LONG, common_chunks, is_common
from engine.pacing.mixed_costs import MixedCosts
from engine.pacing.ways import FREE, Mixing
from engine.runner import Runner
from engine.sampling.device import Sampler
from engine.sampling.params import SamplingParams
from engine.speculation.draft import LENGTHS, Draft
from engine.speculation.verify import verify
from engine.steps.chunk_step import LONGEST, MET_AT_REST
from engine.steps.parts import Filling, Part
from engine.steps.rehearsal import rehearsal
from metal.decode_attention import MAX_TOKENS
from metal.padded_attention import FEWEST, product_rows, rounded, rounded_lengths

IsWarm = Callable[[int, int], bool]
"""Whether a step of so many tokens, after which a sequence has so many, launches only what is compiled."""

AT_LOAD_S = 1.0
"""Seconds of a model's loading in which steps may be compiled that an answer can do without at first."""

STEPS = (1, *(1 + drafted for drafted in LENGTHS))
"""Tokens that a step of a sequence alone may have: one, or one and a draft; the last few of a prompt, too."""

A_MOMENT_S = 0.1
"""Seconds after which whoever asks at rest is heard again."""


_CHUNK = 9  # more than a decode step takes
_FEW_PAGES = 8


class Warmth:
    """Which steps of one sequence launch only what is compiled, on one runner."""

    def __init__(self, runner: Runner, model: LoadedModel, steps: Sequence[int], chunk: int = 0) -> None:
        """`steps`: numbers of tokens that they are wanted with, the most wanted first.

        `chunk`: most tokens of a chunk of a prompt, where chunks are wanted.
        """
        self._runner, self._model = runner, model
        kernels = model.kernels
        self._kernels = kernels if kernels is not None and kernels.is_lazy else None
        self._widths = {} if self._kernels is None else _widths(self._kernels, model)
        widths = dict.fromkeys(self._widths.values())
        lengths = [pages * model.pager.page_size for pages in widths]
        self._waiting = deque((steps[0], length) for length in lengths)
        if self._kernels is not None:
            self._waiting.extend(_chunks(self._kernels, chunk, min(MET_AT_REST, model.info.context_length)))
        self._waiting.extend((tokens, length) for length in lengths for tokens in steps[1:])
        self._compiled = set[tuple[int, int]]()  # tokens, and the length that stands for others
        self._batches = deque(range(2, MAX_TOKENS + 1) if self._kernels is not None and chunk else ())
        self._mixed = MixedCosts(runner, model) if self._kernels is not None and chunk else None

    @property
    def cold(self) -> int:
        """How many kinds of steps are to be compiled still."""
        is_mixed_due = self._mixed is not None and not self._mixed.is_done
        return len(self._waiting) + len(self._batches) + is_mixed_due

    @property
    def mixing(self) -> Mixing:
        """Whether prompts may go with answers' tokens: where kernels compile, as MixedCosts has measured."""
        return FREE if self._mixed is None else Mixing(self._mixed.times)

    def is_warm(self, tokens: int, length: int) -> bool:
        """Whether a step of `tokens` compiles nothing, where its sequence has `length` with them."""
        if self._kernels is None:
            return True
        pages = self._widths.get(_pages(self._kernels, self._model, length), 0)
        return (tokens, pages * self._model.pager.page_size) in self._compiled

    def begin(self) -> None:
        """Compile what the first request needs, and more as long as that takes a moment.

        Raises what a step may raise.
        """
        if self._kernels is None:
            return
        began = time.perf_counter()
        warm_up(self._runner, self._model.memory)
        longest = time.perf_counter() - began
        while self._waiting and (step := time.perf_counter()) + longest <= began + AT_LOAD_S:
            self.next()
            longest = max(longest, time.perf_counter() - step)

    def next(self) -> None:
        """Compile one more kind of step, or a few where they take a moment; at last measure mixed ones.

        Raises what a step may raise, and that kind stays cold then; or MixedStepBroke.
        """
        began = time.perf_counter()
        while self.cold:
            if self._waiting:
                tokens, length = self._waiting.popleft()
                warm_step(self._runner, self._model, tokens, length)
                self._compiled.add((tokens, length))
            elif self._batches:
                warm_batch(self._runner, self._model, self._batches.popleft())
            elif self._mixed is not None:
                self._mixed.next()
            if time.perf_counter() >= began + A_MOMENT_S:
                return


def warm_up(runner: Runner, memory: KVMemory) -> None:
    """Prefill without and with a history, a decode step behind a shared prefix, and the greedy choice.

    The pages are given back, and nothing is counted. A budget without so many pages is no error.
    """
    table, other, copied = PageTable(), PageTable(), memory.counts.copied_pages
    try:
        runner.prefill(table, [0] * _CHUNK)
        runner.prefill(table, [0] * _CHUNK)
        other = memory.fork(table)
        logits = runner.next_logits(other, [0])
        mx.eval(logits, runner.pick(logits[None]), runner.for_next)
    except OutOfPages:
        pass
    finally:
        memory.free(table)
        memory.free(other)
        memory.counts.copied_pages = copied
        runner.launches.clear()
        runner.tokens = 0


def warm_step(runner: Runner, model: LoadedModel, tokens: int, length: int) -> None:
    """A step of `tokens` with which a sequence has `length`; nothing of it is counted.

    Of as few as a draft has, also the check. Of a chunk that many prompts have the layers that differ, as
    beside answers, and all of them at once where its prompt has just begun: further on these launch the same.
    All pages of the sequence are one and the same: what comes out means nothing. Raises OutOfPages where
    there is not even that one.
    """
    with rehearsal(runner, model) as stage:
        begin, rows = length - tokens, tokens if tokens <= MAX_TOKENS else 0
        if is_common(begin, tokens):
            _layer_by_layer(runner, model, Part(stage.table(begin, tokens), tokens, rows))
            if begin > tokens:
                return
        part = Part(stage.table(begin, tokens), tokens, rows)
        logits = runner.fill(part, [0] * tokens, may_trace=True)
        if rows:
            _check(runner, logits, tokens - 1)
        mx.eval(runner.results, runner.for_next)


def _layer_by_layer(runner: Runner, model: LoadedModel, part: Part) -> None:
    """The first two layers of a chunk, each by itself, and those up to one of each shape of attention."""
    shapes, filling = [layer.shape for layer in model.decoder.attention], Filling(part, (0,) * part.tokens)
    unlike = 1 + max(shapes.index(shape) for shape in set(shapes))
    for layers in (0, 1, 1, unlike - 2):
        if layers > 0 or filling.x is None:
            runner.advance(filling, layers)
            mx.eval(filling.x, runner.results)


def warm_batch(runner: Runner, model: LoadedModel, sequences: int) -> None:
    """A step of one token of so many short sequences, and the greedy choice; as `warm_step`."""
    with rehearsal(runner, model) as stage:
        parts = [Part(stage.table(0, 1)) for _ in range(sequences)]
        logits = runner.step(parts, mx.zeros(sequences, mx.uint32))
        mx.eval(runner.pick(logits), runner.results, runner.for_next)


def _check(runner: Runner, logits: mx.array, drafted: int) -> None:
    """Check a draft of so many tokens, greedy and drawn."""
    draft = Draft((0,) * drafted, 0)
    for params in (SamplingParams(temperature=0), SamplingParams()):
        check = verify(logits, draft, Sampler(params, logits.shape[1]), (), (0,), runner.pick)
        mx.eval(check.choices, check.mass)


def _chunks(kernels: Kernels, most: int, longest: int) -> Iterator[tuple[int, int]]:
    """Tokens of chunks, and the length with them, that stand for all that prompts are cut into."""
    attention = kernels.attention.values()
    if not most or not any(each.rounds for each in attention):
        return
    # Other numbers of tokens, which are no more than LONG, are computed as so many, at lengths rounded up.
    odd = min(most, LONG)
    tokens = [(rows, min(rows - 1, odd)) for rows in rounded_lengths(FEWEST, rounded(odd))]
    in_pages = [pair for pair in tokens if all(each.in_pages(pair[1]) is not None for each in attention)]
    few_rows = chunk_rows(1)
    for rows, few in [(few_rows, min(few_rows - 1, odd)), *in_pages] if in_pages else []:
        if few <= LONGEST:
            yield from ((few, room) for room in table_rooms(rows, longest))
    if not any(each.pads for each in attention):
        return
    yield from ((size, begin + size) for begin, size in common_chunks(most, longest))
    rows = product_rows(LONGEST + 1)
    while rows <= odd:
        yield rows - 1, rows - 1
        rows = product_rows(rows + 1)
    for rows, few in tokens:
        if (rows, few) not in in_pages:
            yield few, few
            yield from ((few, keys) for keys in rounded_lengths(rows, rounded(longest)))


def _widths(kernels: Kernels, model: LoadedModel) -> dict[int, int]:
    """Pages of the tables that a sequence may come to, and the fewest for which the same kernels run."""
    widths, fewest, length = dict[int, int](), dict[Hashable, int](), 1
    while True:
        pages = _pages(kernels, model, length)
        form = tuple(attention.decode.form(pages) for attention in kernels.attention.values())
        widths[pages] = fewest.setdefault(form, pages)
        length = pages * model.pager.page_size + 1
        if not kernels.is_in_place or length > model.info.context_length:
            return widths


def _pages(kernels: Kernels, model: LoadedModel, length: int) -> int:
    """Of a table for so many tokens; attention by MLX's own operations needs no more than it has."""
    if not kernels.is_in_place:
        return _FEW_PAGES
    return table_pages(length, kernels.partition, model.pager.page_size)
