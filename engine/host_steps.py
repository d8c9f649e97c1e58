"""Decode steps on a CPU: a few tokens of any number of sequences, by numpy on the thread that asks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial

import mlx.core as mx
import numpy as np

from engine.crew import Crew
from engine.host_sampling import masses
from engine.host_view import host_view
from engine.kv.host_attention import HostAttention
from engine.launch_names import HOST
from engine.layers.host_math import Floats
from engine.layers.host_ops import HostOps
from engine.loading.model import LoadedModel
from engine.parts import Part, wanted

MOST = 64
"""Tokens of a part."""

PARTS = ("project", "attend", "add", "gated", "add")
"""Of a layer in a step: see LinearOps and Attend."""


class HostSteps:
    """Runs decode steps through a model; they are done when they return.

    Attributes:
        ops: what computes their linear parts.
    """

    def __init__(self, model: LoadedModel, launches: Counter[str], crew: Crew) -> None:
        """`launches`: the parts of decode steps are counted there. `crew`: shares the work of prompts."""
        self._model, self._launches, self.ops = model, launches, HostOps()
        self._crew, self._prompt_ops = crew, HostOps(crew)
        self._step = Counter(
            HOST + part for part in ("embed", *PARTS * len(model.decoder.attention), "logits")
        )

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
            if is_decode:
                hidden = self._hidden(parts, tokens, self.ops, self.attend(parts))
            else:
                hidden = self._hidden(parts, tokens, self._prompt_ops, self.attend(parts, self._crew))
            return self._model.decoder.logits(hidden, self.ops)

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
        return HostAttention(self._model.arena, self._model.pager, tables, crew)

    def pick(self, logits: mx.array) -> tuple[mx.array, mx.array]:
        """The likeliest token of each row of (rows, vocab) logits, and the log of its mass: see Pick."""
        self._launches[HOST + "pick"] += 1
        mx.eval(logits)
        rows = host_view(logits)
        return mx.array(rows.argmax(axis=-1).astype(np.uint32)), mx.array(masses(rows))
