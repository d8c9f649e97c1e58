"""Sequences that come and go over a few layers of attention, on either set: what a trial of the sets runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx
import numpy as np

from engine.kernels.attention_drivers import Driver, head_norms, plain_rope
from engine.kv.page_table import PageTable
from metal.attention_shape import AttentionShape, HeadNorms
from metal.candidates_parts import normal, wide
from metal.exact_attention import Exact, attend

_SECOND_CHUNK = 20  # so that a prefill has history in pages
_LAYERS = 3


@dataclass(frozen=True, slots=True)
class _Lane:
    """A sequence: its projections by layer, the tokens before the first step, what is right from there on."""

    rows: tuple[mx.array, ...]
    history: int
    exact: tuple[Exact, ...]


@dataclass(frozen=True, slots=True)
class Run:
    """Steps of two sequences; in the middle one ends and a third takes over its pages at once.

    Attributes:
        shape: of all layers.
        steps: in all, an even number.
        lanes: the sequence that stays, the one that ends, the one that comes.
        pages: that it takes: the third has none but those that the second gave back.
    """

    shape: AttentionShape
    steps: int
    lanes: tuple[_Lane, _Lane, _Lane]
    pages: int

    @staticmethod
    def make(shape: AttentionShape, history: int, steps: int) -> Run:
        """A seeded run; the first sequence begins with `history` tokens, more than 20."""
        lengths = ((history, steps), (37, steps // 2), (21, steps // 2))
        angles = wide(plain_rope(shape).table(max(before + after for before, after in lengths)))
        lanes: list[_Lane] = []
        for number, (before, after) in enumerate(lengths):
            size = (before + after, shape.qkv_width)
            rows = tuple(normal(size, shape.dtype, 10 * number + layer) for layer in range(_LAYERS))
            exact = [
                _exact(shape, row, angles, before, head_norms(shape, layer)) for layer, row in enumerate(rows)
            ]
            lanes.append(_Lane(rows, before, tuple(exact)))
        pages = sum(-(-(before + after) // shape.page_size) for before, after in lengths[:2])
        return Run(shape, steps, (lanes[0], lanes[1], lanes[2]), pages)

    def error(self, found: Sequence[Sequence[mx.array]]) -> float:
        """The largest difference from float64, of the largest value of a layer; NaN if there is one.

        `found` is what `run_sequences` returns.
        """
        errors = [
            float(np.abs(wide(out) - exact).max() / np.abs(exact).max())
            for lane, layers in zip(self.lanes, found, strict=True)
            for out, exact in zip(layers, lane.exact, strict=True)
        ]
        return math.nan if any(math.isnan(error) for error in errors) else max(errors)


def run_sequences(driver: Driver, run: Run) -> list[list[mx.array]]:
    """What decode steps gave: for each lane and layer (steps, heads · head_dim)."""
    found: list[list[list[mx.array]]] = [[[] for _ in range(_LAYERS)] for _ in run.lanes]
    tables = [PageTable() for _ in run.lanes]

    def begin(number: int) -> None:
        lane, table = run.lanes[number], tables[number]
        for first, end in ((0, lane.history - _SECOND_CHUNK), (lane.history - _SECOND_CHUNK, lane.history)):
            driver.prefill(table, [rows[first:end] for rows in lane.rows])

    def decode(*numbers: int) -> None:
        at = [slice(tables[number].length, tables[number].length + 1) for number in numbers]
        rows = [
            mx.concatenate([run.lanes[n].rows[layer][row] for n, row in zip(numbers, at, strict=True)])
            for layer in range(_LAYERS)
        ]
        for layer, out in enumerate(driver.decode([tables[number] for number in numbers], rows)):
            for number, row in zip(numbers, mx.split(out, len(numbers)), strict=True):
                found[number][layer].append(row)

    begin(0)
    begin(1)
    for _ in range(run.steps // 2):
        decode(0, 1)
    driver.pager.free(tables[1])  # while the device may still be at its last step
    begin(2)
    for _ in range(run.steps // 2):
        decode(2, 0)
    return [[mx.concatenate(rows) for rows in layers] for layers in found]


def _exact(
    shape: AttentionShape, rows: mx.array, angles: Exact, first: int, norms: HeadNorms | None
) -> Exact:
    """Attention of the tokens from `first` on, in float64; keys are rounded as they are stored."""
    heads = wide(rows).reshape(rows.shape[0], -1, shape.head_dim)
    q, k, v = np.split(heads, [shape.heads, shape.heads + shape.kv_heads], axis=1)
    if norms is not None and shape.norm_epsilon is not None:
        q = q / np.sqrt((q * q).mean(-1, keepdims=True) + shape.norm_epsilon) * wide(norms.query)
        k = k / np.sqrt((k * k).mean(-1, keepdims=True) + shape.norm_epsilon) * wide(norms.key)
    q = _rotated(q[first:], angles[first:])
    k = wide(mx.array(_rotated(k, angles).astype(np.float32)).astype(shape.dtype))
    return attend(q, k, v, np.arange(first, len(k)), shape)


def _rotated(x: Exact, angles: Exact) -> Exact:
    """Pairs (i, i + d/2) of x (tokens, heads, d) turned by `angles` (positions, d): cosines, then sines."""
    cosine, sine = np.split(angles[: len(x), None], 2, axis=-1)
    first, second = np.split(x, 2, axis=-1)
    return np.concatenate([first * cosine - second * sine, second * cosine + first * sine], axis=-1)
