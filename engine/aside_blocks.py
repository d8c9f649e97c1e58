"""A prompt's chunk in blocks of tokens, each of which goes on as soon as what it needs is there.

The linear parts of a block hang on its tokens alone, its attention on keys and values of the tokens before,
too. So an operation's last pieces hold up nobody but who reads them: see engine/tasks.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import mlx.core as mx
import numpy as np

from engine.host_view import host_view
from engine.kv.block_attention import ROWS, attend_block, with_ones
from engine.kv.window import first_seen
from engine.layers import host_math
from engine.layers.attention import AttentionLayer
from engine.layers.host_math import Floats
from engine.layers.linear import DenseLinear, Embedding, Linear
from engine.layers.norm import RMSNorm
from engine.layers.rope import Angles
from engine.tasks import Task, Tasks

_BLOCKS = 16
"""Of a chunk, where they are long enough."""

_FEWEST, _MOST = 128, 256
"""Tokens of a block: for fewer BLAS takes long to bring weights into order; more are few blocks, and answers'
processor is left later.
"""

Space = tuple[Floats, ...]
"""Keys and values that a layer's tokens see, each as `with_ones` makes them."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """What some tokens' rows come to, (tokens, width), in blocks of tokens that follow each other."""

    tasks: Sequence[Task[Floats]]
    tasks_of: Tasks

    def __getitem__(self, rows: slice) -> Blocks:
        """The last rows; of one block."""
        last = self.tasks[-1]

        def compute(block: Floats) -> Floats:
            return block[rows]

        return Blocks([self.tasks_of.add(compute, [last], last.place)], self.tasks_of)


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
        rows = host_view(table)
        blocks = [self._tasks.given(rows[block], place) for place, block in enumerate(self._blocks)]
        return Blocks(blocks, self._tasks)

    def project(self, x: Blocks, norm: RMSNorm, linear: Linear) -> Blocks:
        """See BlockOps."""
        normed, product = _normed(norm), _product(linear)

        def compute(rows: Floats) -> Floats:
            return product(normed(rows))

        return self._each(compute, linear, x)

    def gated(self, x: Blocks, norm: RMSNorm, linear: Linear) -> Blocks:
        """See BlockOps."""
        normed, product = _normed(norm), _product(linear)

        def compute(rows: Floats) -> Floats:
            both = product(normed(rows))
            half = both.shape[1] // 2
            return host_math.gated_rows(both[:, :half], both[:, half:])

        return self._each(compute, linear, x)

    def add(self, residual: Blocks, x: Blocks, linear: Linear) -> Blocks:
        """See BlockOps."""
        product = _product(linear)

        def compute(rows: Floats, before: Floats) -> Floats:
            out = product(rows)
            out += before
            return out

        return self._each(compute, linear, x, residual)

    def _each(self, compute: Callable[..., Floats], linear: Linear, *given: Blocks) -> Blocks:
        is_mlx = not _is_plain(linear)
        tasks = [
            self._tasks.add(compute, inputs, inputs[0].place, is_first_threads=is_mlx)
            for inputs in zip(*(blocks.tasks for blocks in given), strict=True)
        ]
        return Blocks(tasks, self._tasks)


def _is_plain(linear: Linear) -> bool:
    return isinstance(linear, DenseLinear) and linear.weight.dtype == mx.float32


def _product(linear: Linear) -> Callable[[Floats], Floats]:
    if not isinstance(linear, DenseLinear) or not _is_plain(linear):
        return lambda rows: _by_mlx(linear, rows)
    weight, bias = linear.on_host.T, None if linear.bias is None else host_view(linear.bias)

    def product(rows: Floats) -> Floats:
        out = rows @ weight
        if bias is not None:
            out += bias
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
        return Blocks(outs, self._tasks)

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
