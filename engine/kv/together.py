"""Attention of a token each of several sequences at once: what they see, copied side by side.

One by one each sequence launches the same few operations, which may take longer than what they compute.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import mlx.core as mx
import numpy as np

from engine.kv.arena import Arena
from engine.kv.page_table import Span
from engine.machine.machine import device_kind
from metal.attention_shape import AttentionShape

WORTH_ALONE = 256 << 10
"""Bytes of keys and values in a layer that lie in a row and are better attended to there than copied.

Measured on a CPU (32 sequences, two heads of 64, float32): of 100 tokens in a row together 0.6 ms, one by one
1.4; of 500 5.3 and 2.8. Scattered in pages 100 tokens take 0.6 and 4.0.
"""

MOST_COPIED = 2 << 20
"""Most bytes of a sequence's keys and values in a layer that are copied next to others."""

FEWEST = 64
"""Sequences that see no more tokens are of one length."""

MOST_FOLDED = 8
"""Most query rows for which MLX's GPU attention has a kernel for short queries.

The heads of a group become rows of one query: a CPU then reads keys and values once.
"""

_SHAPES = 1 if device_kind() == "CPU" else 64
"""The longest is taken to be a multiple of it: MLX's attention may be prepared anew for each length."""


class Together:
    """What some sequences see in layers of one window: their rows in the arena, padded to the longest.

    Attributes:
        members: which of a step's they are; `rows` is the same as an array.
        is_masked: whether some see less than others.
    """

    def __init__(self, arena: Arena, members: list[int], seen: Sequence[Sequence[Span]]) -> None:
        """`seen`: the slots that each member sees, at least one, in the order of its tokens."""
        self._arena, self.members, self.rows = arena, members, mx.array(members)
        lengths = [_tokens(spans) for spans in seen]
        longest = -(-max(lengths) // _SHAPES) * _SHAPES
        slots = np.empty((len(seen), longest), np.int32)
        for row, spans, length in zip(slots, seen, lengths, strict=True):
            end = 0
            for span in spans:
                begin, end = end, end + span.length
                row[begin:end] = range(span.begin, span.end)
            row[length:] = row[length - 1]  # of its own: what others have left might not be finite
        self._rows = arena.rows_of(slots)
        self.is_masked = min(lengths) < longest
        is_seen = mx.arange(longest) < mx.array(lengths)[:, None]
        self._mask = is_seen[:, None, None] if self.is_masked else None

    def attend(self, layer: int, shape: AttentionShape, q: mx.array) -> mx.array:
        """softmax(scale · q Kᵀ) V of the members' q (n, heads, 1, head_dim): (n, heads · head_dim)."""
        keys, values = self._arena.read_rows(layer, self._rows)
        if shape.group <= MOST_FOLDED:
            q = q.reshape(len(q), shape.kv_heads, shape.group, -1)
        out = mx.fast.scaled_dot_product_attention(q, keys, values, scale=shape.scale, mask=self._mask)
        return out.reshape(len(out), -1)


class Beside:
    """How a token each of several sequences attends in layers of one window: in groups, or alone.

    Attributes:
        groups: of sequences that see about as much; with what they see padded it is at most twice as long.
        alone: the others.
        order: where each sequence's row is, groups first; None where they are in order.
    """

    def __init__(self, arena: Arena, seen: Sequence[Sequence[Span]]) -> None:
        """`seen`: the slots that each sequence sees."""
        alike = defaultdict[int, list[int]](list)
        for row, spans in enumerate(seen):
            if _is_better_copied(spans, arena.token_bytes):
                alike[(max(FEWEST, _tokens(spans)) - 1).bit_length()].append(row)
        alike = {length: rows for length, rows in alike.items() if len(rows) > 1}
        self.groups = [Together(arena, rows, [seen[row] for row in rows]) for rows in alike.values()]
        grouped = [row for group in self.groups for row in group.members]
        self.alone = [row for row in range(len(seen)) if row not in set(grouped)]
        places = np.argsort([*grouped, *self.alone]).astype(np.int32)
        is_in_order = bool((places[:-1] < places[1:]).all())
        self.order = None if is_in_order else mx.array(places)

    @property
    def form(self) -> tuple[int, ...]:
        """What its operations hang on."""
        return tuple(2 * len(group.members) + group.is_masked for group in self.groups)


def _is_better_copied(spans: Sequence[Span], token_bytes: int) -> bool:
    """Whether a sequence that sees `spans` had better attend next to others."""
    is_read_there = len(spans) == 1 and _tokens(spans) * token_bytes >= WORTH_ALONE
    return not is_read_there and _tokens(spans) * token_bytes <= MOST_COPIED


def _tokens(spans: Sequence[Span]) -> int:
    return sum(span.length for span in spans)
