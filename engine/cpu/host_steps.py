"""Steps of few tokens on a CPU, of any number of sequences: by numpy, on the thread that asks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial

import mlx.core as mx
import numpy as np

from engine.cpu.crew import Crew
from engine.cpu.host_view import host_view
from engine.kernels.launch_names import HOST
from engine.kv.host_attention import HostAttention
from engine.layers.host_math import Floats
from engine.layers.host_ops import HostOps
from engine.loading.model import LoadedModel
from engine.sampling.host import masses
from engine.steps.parts import Filling, Part, wanted
from engine.steps.staging import Staging

MOST = 64
"""Tokens of a part. A chunk of more MLX multiplies sooner, by all of BLAS's threads."""

PARTS = ("project", "attend", "add", "gated", "add")
"""Of a layer in a step: see LinearOps and Attend."""


class HostSteps:
    """Runs decode steps and short chunks of prompts through a model; they are done when they return.

    Attributes:
        ops: what computes the linear parts of decode steps.
    """

    def __init__(self, model: LoadedModel, launches: Counter[str], crew: Crew) -> None:
        """`launches`: the parts of decode steps are counted there. `crew`: shares the work of prompts."""
        self._model, self._launches, self.ops = model, launches, HostOps()
        self._crew, self._prompt_ops = crew, HostOps(crew)
        self._no_logits = mx.zeros((0, model.config.vocab_size))
        self._step = Counter(
            HOST + part for part in ("embed", *PARTS * len(model.decoder.attention), "logits")
        )

    @staticmethod
    def takes(parts: Sequence[Part]) -> bool:
        """Whether they have so few tokens."""
        return all(part.tokens <= MOST for part in parts)

    def __call__(self, parts: Sequence[Part], tokens: mx.array, *, is_decode: bool = True) -> mx.array:
        """Float32 logits (Σ rows, vocab), the last `rows` of each part, part after part.

        Args:
            parts: whose pages are there already; their tables do not get longer here.
            tokens: of all parts, one part after the other, uint32 (Σ tokens,).
            is_decode: whether its launches count.
        """
        if is_decode:
            self._launches.update(self._step)
        # A request ends where its logits are found not to be finite.
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            ops, crew = (self.ops, None) if is_decode else (self._prompt_ops, self._crew)
            attend, decoder = self.attend(parts, crew), self._model.decoder
            if not any(part.rows for part in parts):
                decoder.store(tokens, ops, attend, attend.write)
                return self._no_logits
            return decoder.logits(self._hidden(parts, tokens, ops, attend), self.ops)

    def logits(self, hidden: mx.array) -> mx.array:
        """Float32 logits (rows, vocab) of last hidden states (rows, width), evaluated ones."""
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            return self._model.decoder.logits(host_view(hidden), self.ops)

    def through(self, filling: Filling, layers: range, staging: Staging) -> mx.array:
        """What a chunk comes to in these layers, (tokens, width), behind those that `filling.x` is from."""
        decoder, ops = self._model.decoder, self._prompt_ops
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            if filling.x is None:
                x = decoder.embed(staging.token_ids(filling.tokens), ops)
            else:
                x = host_view(filling.x)
            return mx.array(decoder.through(x, ops, self.attend([filling.part], self._crew), layers))

    def _hidden(self, parts: Sequence[Part], tokens: mx.array, ops: HostOps, attend: HostAttention) -> Floats:
        """Last hidden states whose logits are wanted, (Σ rows, width)."""
        decoder, rows = self._model.decoder, parts[0].rows
        if len(parts) == 1 and rows < parts[0].tokens:
            return decoder.last_hidden(tokens, ops, attend, partial(attend.last, rows=rows), rows)
        hidden = decoder.hidden(tokens, ops, attend)
        return np.concatenate([hidden[each] for each in wanted(parts)])

    def attend(self, parts: Sequence[Part], crew: Crew | None = None) -> HostAttention:
        """Attention of a step of these parts, whose pages are there already; `crew`: of HostAttention."""
        tables = [(part.table, part.tokens) for part in parts]
        return HostAttention(self._model.arena, tables, crew)

    def pick(self, logits: mx.array) -> tuple[mx.array, mx.array]:
        """The likeliest token of each row of (rows, vocab) logits, and the log of its mass: see Pick."""
        self._launches[HOST + "pick"] += 1
        mx.eval(logits)
        rows = host_view(logits)
        return mx.array(rows.argmax(axis=-1).astype(np.uint32)), mx.array(masses(rows))
