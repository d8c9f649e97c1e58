"""Sequences scattered over pages, with tokens to come: what kernels that touch pages are tried on."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from metal import reference_attention
from metal.attention_shape import AttentionShape, HeadNorms
from metal.candidates_parts import dtype_named, normal, wide
from metal.exact_attention import Exact, attend
from metal.pools import SMALLEST
from metal.sequences import Sequences
from metal.trial_case import CaseSpec, SomeRows

_EDGE, _STRIDE, _TILE = 8, 7, 32
"""Of many new tokens these at both ends are attended to exactly, and each 7th between: as tiles are powers of
two, each row of one has its turn, and each tile of 8 rows."""


@dataclass(frozen=True, slots=True)
class Attention:
    """Attention of a batch, in words that fit into JSON.

    Attributes:
        heads, kv_heads, head_dim, page_size, window, softcap, sinks: see `AttentionShape`.
        dtype: by name.
        history: tokens that each sequence has in pages, "0,17".
        fresh: new tokens of each, "1,1".
        rotary: rotated elements of a head; None for all.
        norm: whether query and key heads are normalised.
    """

    heads: int
    kv_heads: int
    head_dim: int
    dtype: str
    history: str
    fresh: str
    page_size: int = 16
    rotary: int | None = None
    window: int | None = None
    softcap: float | None = None
    sinks: bool = False
    norm: bool = False

    @property
    def shape(self) -> AttentionShape:
        """As the kernels take it."""
        return AttentionShape(
            self.heads,
            self.kv_heads,
            self.head_dim,
            self.head_dim if self.rotary is None else self.rotary,
            self.page_size,
            dtype_named(self.dtype),
            self.head_dim**-0.5,
            self.window,
            self.softcap,
            self.sinks,
            1e-5 if self.norm else None,
        )

    def lengths(self) -> tuple[list[int], list[int]]:
        """Tokens before, and new ones, of each sequence."""
        before, new = ([int(part) for part in text.split(",")] for text in (self.history, self.fresh))
        return before, new

    @property
    def words(self) -> str:
        """The shape class."""
        numbers = {"rotary": self.rotary, "window": self.window, "softcap": self.softcap}
        parts = [f"{name}{value:g}" for name, value in numbers.items() if value is not None]
        parts += [name for name, is_there in (("sinks", self.sinks), ("norm", self.norm)) if is_there]
        heads = f"{self.heads}/{self.kv_heads}x{self.head_dim}"
        return " ".join([*parts, self.dtype, heads, f"p{self.page_size}", f"{self.history}+{self.fresh}"])

    def spec(self, op: str) -> CaseSpec:
        """From which a trial process builds the case of `op`."""
        return CaseSpec("metal.candidates", op, asdict(self))


@dataclass(frozen=True, slots=True)
class Scene:
    """A batch, and what attention makes of it.

    Attributes:
        qkv: projections of the new tokens, sequence after sequence; (rows, qkv_width).
        angles: of every position, (positions, rotary_dims).
        positions: of each row.
        slots: of each row, int32, at least 8, -1 beyond the rows.
        tables, lengths: see `Pages`.
        sequences: see PrefillAttention.
        keys, values: the pools: NaN where no token was written.
        norms, sinks: where the shape has them.
        queries, new_keys, new_values: rotated heads of the new tokens, (heads, rows, head_dim), exact but for
            keys, which are rounded as they are stored.
        out: attention of the new tokens, (rows, heads · head_dim); of many, some.
        first: oldest tokens that are left out by who gathers keys; then `out` is another.
    """

    qkv: mx.array
    angles: mx.array
    positions: mx.array
    slots: mx.array
    tables: mx.array
    lengths: mx.array
    sequences: Sequences
    keys: mx.array
    values: mx.array
    norms: HeadNorms | None
    sinks: mx.array | None
    queries: Exact
    new_keys: Exact
    new_values: Exact
    out: SomeRows
    first: int = 0


def make_scene(attention: Attention, partition: int) -> Scene:
    """A seeded scene; page tables are padded to whole partitions of `partition` keys."""
    shape = attention.shape
    before, new = attention.lengths()
    tables = _tables(before, new, shape.page_size, partition)
    rows = [np.arange(b, b + n) for b, n in zip(before, new, strict=True)]
    slots = [_slots(table, row, shape.page_size) for table, row in zip(tables, rows, strict=True)]
    old = [_slots(table, np.arange(b), shape.page_size) for table, b in zip(tables, before, strict=True)]
    size = (int(tables.max()) + 2) * shape.page_size
    keys, values = (_pool(shape, size, np.concatenate(old), seed) for seed in (1, 2))
    qkv = normal((sum(new), shape.qkv_width), shape.dtype, 3)
    angles = _angles(max(b + n for b, n in zip(before, new, strict=True)), shape.rotary_dims)
    norms = HeadNorms(*(normal((shape.head_dim,), shape.dtype, s) + 1 for s in (4, 5)))
    norms = norms if shape.norm_epsilon is not None else None
    sinks = normal((shape.heads,), shape.dtype, 6) if shape.sinks else None
    positions = mx.array(np.concatenate(rows))
    with mx.stream(mx.cpu):  # float32 there is float32, and a kernel of ours has no part in it
        heads = [wide(array) for array in _heads(qkv, angles[positions], shape, norms)]
    exact = [part.transpose(1, 0, 2) for part in heads]
    out = _attended(heads, shape, sinks, [keys, values], list(zip(old, new, strict=True)))
    lengths, offsets = (_padded(np.array(numbers), -1) for numbers in (before, [0, *np.cumsum(new)]))
    sequences = Sequences.of(mx.array(tables), lengths, offsets, slots=size, rows=sum(new))
    mx.eval(sequences.numbers)
    return Scene(
        qkv,
        angles,
        positions,
        _padded(np.concatenate(slots), -1),
        mx.array(tables),
        lengths,
        sequences,
        keys,
        values,
        norms,
        sinks,
        queries=exact[0],
        new_keys=exact[1],
        new_values=exact[2],
        out=out,
    )


def _tables(before: list[int], new: list[int], page: int, partition: int) -> NDArray[np.int32]:
    """Pages in a shuffled order, -1 beyond a sequence's end."""
    counts = [-(-(b + n) // page) for b, n in zip(before, new, strict=True)]
    width = -(-max(counts) * page // partition) * partition // page
    tables = np.full((len(counts), max(width, SMALLEST)), -1, np.int32)
    order = np.random.default_rng(0).permutation(sum(counts) + 2)
    for sequence, count in enumerate(counts):
        tables[sequence, :count], order = order[:count], order[count:]
    return tables


def _slots(table: NDArray[np.int32], tokens: NDArray[np.int64], page: int) -> NDArray[np.int64]:
    return table[tokens // page].astype(np.int64) * page + tokens % page


def _pool(shape: AttentionShape, size: int, written: NDArray[np.int64], seed: int) -> mx.array:
    pool = np.full((shape.kv_heads, size, shape.head_dim), np.nan, np.float32)
    filled = np.random.default_rng(seed).normal(size=(shape.kv_heads, len(written), shape.head_dim))
    pool[:, written] = filled
    return mx.array(pool).astype(shape.dtype)


def _angles(positions: int, rotary: int) -> mx.array:
    frequencies = 10000.0 ** (-2 * np.arange(rotary // 2) / max(rotary, 1))
    angles = np.arange(positions)[:, None] * frequencies
    return mx.array(np.concatenate([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32))


def _padded(values: NDArray[np.int64], filler: int) -> mx.array:
    missing = max(0, SMALLEST - len(values))
    return mx.array(np.concatenate([values, np.full(missing, filler)]).astype(np.int32))


def _heads(
    qkv: mx.array, angles: mx.array, shape: AttentionShape, norms: HeadNorms | None
) -> tuple[mx.array, mx.array, mx.array]:
    """Rotated heads in float32; keys rounded as they are stored."""
    single = HeadNorms(*(w.astype(mx.float32) for w in (norms.query, norms.key))) if norms else None
    q, k, v = reference_attention.split_heads(qkv.astype(mx.float32), angles, shape, single)
    return q, k.astype(shape.dtype).astype(mx.float32), v


def _attended(
    heads: list[Exact],
    shape: AttentionShape,
    sinks: mx.array | None,
    pools: list[mx.array],
    sequences: list[tuple[NDArray[np.int64], int]],
) -> SomeRows:
    """Each sequence over its slots in the pools and its new tokens, whose `heads` are q, k and v."""
    rows, outs = list[NDArray[np.int64]](), list[Exact]()
    first = 0
    for old, count in sequences:
        if not count:
            continue
        q, k, v = (part[first : first + count] for part in heads)
        keys, values = (
            np.concatenate([wide(pool)[:, old].transpose(1, 0, 2), fresh])
            for pool, fresh in zip(pools, (k, v), strict=True)
        )
        some = _looked_at(count)
        outs.append(
            attend(q[some], keys, values, len(old) + some, shape, None if sinks is None else wide(sinks))
        )
        rows.append(first + some)
        first += count
    return SomeRows(np.concatenate(rows), np.concatenate(outs), first)


def _looked_at(count: int) -> NDArray[np.int64]:
    """Which of a sequence's new tokens are attended to exactly."""
    numbers = np.arange(count)
    if count <= _TILE * _STRIDE:
        return numbers
    return numbers[(numbers < _EDGE) | (numbers >= count - _EDGE) | (numbers % _STRIDE == 0)]
