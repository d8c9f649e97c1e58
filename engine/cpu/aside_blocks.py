"""A prompt's chunk in blocks of tokens, each of which goes on as soon as what it needs is there.

The linear parts of a block hang on its tokens alone, its attention on keys and values of the tokens before,
too. So an operation's last pieces hold up nobody but who reads them: see engine/cpu/tasks.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import mlx.core as mx
import numpy as np

from engine.cpu.host_view import host_view
from engine.cpu.tasks import Task, Tasks
from engine.kv.block_attention import ROWS, attend_block, with_ones
from engine.kv.window import first_seen
from engine.layers import host_math
from engine.layers.attention import AttentionLayer
from engine.layers.host_math import Floats
from engine.layers.linear import DenseLinear, Embedding, Linear
from engine.layers.norm import RMSNorm
from engine.layers.rope import Angles

_BLOCKS = 8
"""Of a chunk, where they are long enough."""

_FEWEST, _MOST = 256, 512
"""Tokens of a block. BLAS brings weights into its order for each: products of 128, 256 and 512 rows take 1.05
to 1.23, 1.00 to 1.10, 0.98 to 1.02 times as long as of 1,024 (AMD EPYC, 0.3 to 23 million weights).
"""

_WORTH = 1 << 26
"""Multiplications that are worth a piece, where columns are shared: a millisecond and a half."""

Space = tuple[Floats, ...]
"""Keys and values that a layer's tokens see, each as `with_ones` makes them."""

_ALL = slice(None)
"""Columns."""

OfColumns = Callable[..., Floats]
"""Some columns of what comes of rows: given these, a residual's, if there is one, and columns as a slice."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """What some tokens' rows come to, (tokens, width), in blocks of tokens that follow each other.

    Attributes:
        rows: of each block.
    """

    tasks: Sequence[Task[Floats]]
    rows: Sequence[int]
    maker: Tasks

    def __getitem__(self, rows: slice) -> Blocks:
        """The last rows; of one block."""
        last, count = self.tasks[-1], len(range(self.rows[-1])[rows])

        def compute(block: Floats) -> Floats:
            return block[rows]

        return Blocks([self.maker.add(compute, [last], last.place)], [count], self.maker)


def blocks_of(tokens: int) -> list[slice]:
    """A chunk's tokens."""
    size = min(max(-(-tokens // _BLOCKS), _FEWEST), _MOST)
    return [slice(begin, min(begin + size, tokens)) for begin in range(0, tokens, size)]


class TaskOps:
    """BlockOps whose results are tasks. Weights that are not plain float32 MLX multiplies."""

    def __init__(self, tasks: Tasks, blocks: Sequence[slice]) -> None:
        self._tasks, self._blocks = tasks, blocks

    def embed(self, ids: mx.array, embedding: Embedding) -> Blocks:
        """See BlockOps."""
        table = embedding(ids).astype(mx.float32)
        mx.eval(table)
        rows = [host_view(table)[block] for block in self._blocks]
        tasks = [self._tasks.given(each, place) for place, each in enumerate(rows)]
        return Blocks(tasks, [len(each) for each in rows], self._tasks)

    def project(self, x: Blocks, norm: RMSNorm, linear: Linear) -> Blocks:
        """See BlockOps."""
        normed, product = _normed(norm), _product(linear)

        def compute(rows: Floats, columns: slice) -> Floats:
            return product(normed(rows), columns)

        return self._each(compute, linear, _columns(linear), x)

    def gated(self, x: Blocks, norm: RMSNorm, linear: Linear) -> Blocks:
        """See BlockOps."""
        normed, product, width = _normed(norm), _product(linear), _columns(linear) // 2

        def compute(rows: Floats, columns: slice) -> Floats:
            rows = normed(rows)
            if columns == _ALL:
                return host_math.gated_rows(*np.split(product(rows, _ALL), 2, axis=1))
            up = slice(width + columns.start, width + columns.stop)
            return host_math.gated_rows(product(rows, columns), product(rows, up))

        return self._each(compute, linear, width, x)

    def add(self, residual: Blocks, x: Blocks, linear: Linear) -> Blocks:
        """See BlockOps."""
        product = _product(linear)

        def compute(rows: Floats, before: Floats, columns: slice) -> Floats:
            out = product(rows, columns)
            out += before[:, columns]
            return out

        return self._each(compute, linear, _columns(linear), x, residual)

    def _each(self, compute: OfColumns, linear: Linear, width: int, *given: Blocks) -> Blocks:
        """Of each block all columns, or some and some of `width` where there are few blocks."""
        tasks, blocks = list[Task[Floats]](), zip(*(each.tasks for each in given), strict=True)
        for rows, inputs in zip(given[0].rows, blocks, strict=True):
            place, is_mlx = inputs[0].place, not _is_plain(linear)
            pieces = [
                self._tasks.add(partial(compute, columns=part), inputs, place, is_first_threads=is_mlx)
                for part in self._parts(linear, width, rows)
            ]
            tasks.append(pieces[0] if len(pieces) == 1 else self._tasks.add(_side_by_side, pieces, place))
        return Blocks(tasks, given[0].rows, self._tasks)

    def _parts(self, linear: Linear, width: int, rows: int) -> list[slice]:
        """Columns of pieces: all, but of a chunk of few blocks, whose threads had nothing to do."""
        worth = rows * linear.weight.size // _WORTH if isinstance(linear, DenseLinear) else 0
        count = min(worth, _BLOCKS // len(self._blocks)) if _is_plain(linear) else 1
        if count < 2:
            return [_ALL]
        size = -(-width // count)
        return [slice(begin, min(begin + size, width)) for begin in range(0, width, size)]


def _is_plain(linear: Linear) -> bool:
    """Whether numpy multiplies by its weight."""
    return isinstance(linear, DenseLinear) and linear.weight.dtype == mx.float32


def _columns(linear: Linear) -> int:
    """0 where only all can be asked for."""
    return linear.outputs if isinstance(linear, DenseLinear) else 0


def _side_by_side(*parts: Floats) -> Floats:
    return np.concatenate(parts, axis=1)


def _product(linear: Linear) -> Callable[[Floats, slice], Floats]:
    """Some columns of linear(rows)."""
    if not isinstance(linear, DenseLinear) or not _is_plain(linear):
        return lambda rows, columns: _by_mlx(linear, rows)[:, columns]
    weight, bias = linear.on_host, None if linear.bias is None else host_view(linear.bias)

    def product(rows: Floats, columns: slice) -> Floats:
        out = rows @ weight[columns].T
        if bias is not None:
            out += bias[columns]
        return out

    return product


def _by_mlx(linear: Linear, rows: Floats) -> Floats:
    out = linear(mx.array(rows)).astype(mx.float32)
    mx.eval(out)
    return host_view(out)


def _normed(norm: RMSNorm) -> Callable[[Floats], Floats]:
    return partial(host_math.normalised_rows, weight=norm.on_host, eps=norm.eps)


class BlockAttention:
    """Attention of a layer's blocks, whose keys and values go where they are taken from."""

    def __init__(
        self, tasks: Tasks, blocks: Sequence[slice], angles: Angles, give_way: Callable[[], None]
    ) -> None:
        """`angles`: of the chunk's tokens. `give_way`: called between parts of a piece."""
        self._tasks, self._blocks, self._angles, self._give_way = tasks, blocks, angles, give_way
        self._tokens = blocks[-1].stop

    def write(
        self,
        layer: AttentionLayer,
        qkv: Blocks,
        earlier: Sequence[Sequence[Floats]],
        to: Sequence[Floats],
    ) -> tuple[list[Task[Floats]], Task[Space]]:
        """Put keys and values of the chunk's tokens `to`, each (kv_heads, tokens, head_dim).

        `earlier`: those of the tokens before, as far as they are seen, some and some.

        Returns each block's scaled queries, (kv_heads, group, tokens, head_dim), and what they see.
        """
        space = self._tasks.add(lambda: tuple(with_ones(parts, self._tokens) for parts in earlier), [], -1)
        norms = None if layer.norms is None else [host_view(w) for w in (layer.norms.query, layer.norms.key)]
        heads = [
            self._tasks.add(partial(self._heads, layer, norms, block, to), [task, space], task.place)
            for block, task in zip(self._blocks, qkv.tasks, strict=True)
        ]
        return heads, space

    def _heads(
        self,
        layer: AttentionLayer,
        norms: Sequence[Floats] | None,
        block: slice,
        to: Sequence[Floats],
        rows: Floats,
        space: Space,
    ) -> Floats:
        shape = layer.shape
        heads, group = rows.reshape(len(rows), -1, shape.head_dim), shape.heads // shape.kv_heads
        q, k, v = np.split(heads, [shape.heads, shape.heads + shape.kv_heads], axis=1)
        if norms is not None and shape.norm_epsilon is not None:
            q, k = (_normed_heads(*each, shape.norm_epsilon) for each in ((q, norms[0]), (k, norms[1])))
        cos, sin = (angles[block, None] for angles in self._angles)
        q, k = host_math.rotated(q, cos, sin), host_math.rotated(k, cos, sin)
        begin = space[0].shape[1] - self._tokens + block.start
        for new, place, seen in zip((k, v), to, space, strict=True):
            place[:, block] = new.swapaxes(0, 1)
            seen[:, begin : begin + len(rows), : shape.head_dim] = new.swapaxes(0, 1)
        q *= shape.scale
        return np.ascontiguousarray(q.reshape(len(rows), shape.kv_heads, group, -1).transpose(1, 2, 0, 3))

    def attend(
        self, layer: AttentionLayer, heads: Sequence[Task[Floats]], space: Task[Space], rows: int
    ) -> Blocks:
        """What the tokens come to, (tokens, heads · head_dim); with `rows` as many of the last block's."""
        asked = list(enumerate(self._blocks))
        if rows:
            asked = [(len(heads) - 1, slice(self._tokens - rows, self._tokens))]
        outs = [self._attended(layer, block, heads[: number + 1], space) for number, block in asked]
        return Blocks(outs, [block.stop - block.start for _, block in asked], self._tasks)

    def _attended(
        self, layer: AttentionLayer, block: slice, heads: Sequence[Task[Floats]], space: Task[Space]
    ) -> Task[Floats]:
        """Of the tokens of `block`, which are the last of the last of `heads`."""
        shape, queries, count = layer.shape, heads[-1], block.stop - block.start
        group = shape.heads // shape.kv_heads
        size = max(1, ROWS // group)
        parts = [slice(at, min(at + size, count)) for at in range(0, count, size)]

        def meet(head: int, part: slice, q: Floats, seen: Space) -> Floats:
            own = q[head, :, q.shape[2] - count :][:, part]
            end = seen[0].shape[1] - self._tokens + block.start + part.stop
            first = first_seen(end - own.shape[1], shape.window)
            keys, values = (each[head, first:end] for each in seen)
            return attend_block(own, keys, values, shape.window, self._give_way)

        places = [(part, head) for part in parts for head in range(shape.kv_heads)]
        pieces = [
            self._tasks.add(partial(meet, head, part), [queries, space], queries.place, after=heads)
            for part, head in places
        ]

        def joined(*found: Floats) -> Floats:
            out = np.empty((count, shape.kv_heads, group, shape.head_dim), np.float32)
            for (part, head), piece in zip(places, found, strict=True):
                out[part, head] = piece.swapaxes(0, 1)
            return out.reshape(count, -1)

        return self._tasks.add(joined, pieces, queries.place)


def _normed_heads(heads: Floats, weight: Floats, eps: float) -> Floats:
    return host_math.normalised_rows(heads.reshape(-1, heads.shape[-1]), weight, eps).reshape(heads.shape)
