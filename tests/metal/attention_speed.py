"""Decode attention from pages against MLX's own on contiguous keys and values, for one token of one sequence.

    .venv/bin/python -m tests.metal.attention_speed [--keys 128,2048,8192,32768] [--rounds 9] [--json]

Ours rotates, writes the page and attends, in each cut that selection would try; MLX's attends alone. Both
must agree before anything is timed. Timed are microseconds a layer, in chains of layers that each have
weights, keys and values of their own and wait for the last: a product with one row, then attention. A chain
of products alone is taken off. Chains take turns; medians of rounds. Without a GPU kernels are emulated:
agreement is checked, nothing is timed.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter

import mlx.core as mx
import numpy as np

from engine.settings import choose_executor
from metal import reference_attention
from metal.attention_shape import AttentionShape
from metal.candidates_parts import normal, wide
from metal.decode_attention import DecodeAttention
from metal.decode_cut import DecodeCut, cut_for, cuts
from metal.executors import Executor
from metal.pools import SMALLEST, Pages, Pools, no_fence
from metal.trial_case import TOLERANCE, relative_error
from metal.trial_scope import ExecutorName, open_executor

BUILD = Path(__file__).parents[2] / "build" / "emulated"
TURNS = 6  # through all layers, in a chain
PRODUCT, CONTIGUOUS = "product", "contiguous"
Pair = tuple[mx.array, mx.array]  # keys, values
Step = Callable[[int, mx.array], mx.array]  # layer, (1, qkv_width) -> (1, heads · head_dim)


@dataclass(frozen=True, slots=True)
class Row:
    """What came of one length.

    Attributes:
        keys: that a token attends to, itself among them.
        errors: max|ours - MLX's in float32| / max|MLX's| by cut.
        microseconds: of a layer by cut, and of MLX's attention as "contiguous"; empty where nothing is timed.
        spread: the least and the most of the rounds, by the same names.
    """

    keys: int
    errors: Mapping[str, float]
    microseconds: Mapping[str, float]
    spread: Mapping[str, tuple[float, float]]


class Layers:
    """Random keys and values of some layers: contiguous, and the same in pages in a shuffled order."""

    def __init__(self, shape: AttentionShape, keys: int, layers: int) -> None:
        self.shape, self.keys = shape, keys
        page, hidden = shape.page_size, shape.heads * shape.head_dim
        self._order = np.random.default_rng(keys).permutation(-(-keys // page) + 2).astype(np.int32)
        positions = np.arange(keys - 1)  # the last token is new: ours writes it
        slots = mx.array(self._order[positions // page] * page + positions % page)
        size = (shape.kv_heads, keys, shape.head_dim)
        pool_size = (shape.kv_heads, len(self._order) * page, shape.head_dim)
        self.contiguous: list[Pair] = []  # each (1, kv_heads, keys, head_dim)
        self.pools: list[Pair] = []  # each (kv_heads, slots, head_dim)
        self.weights: list[mx.array] = []  # each (qkv_width, hidden)
        for layer in range(layers):
            both = (normal(size, shape.dtype, 3 * layer), normal(size, shape.dtype, 3 * layer + 1))
            pools = (mx.zeros(pool_size, shape.dtype), mx.zeros(pool_size, shape.dtype))
            for pool, part in zip(pools, both, strict=True):
                pool[:, slots] = part[:, : keys - 1]
            weight = normal((shape.qkv_width, hidden), shape.dtype, 3 * layer + 2, hidden**-0.5)
            self.contiguous.append((both[0][None], both[1][None]))
            self.pools.append(pools)
            self.weights.append(weight)
            mx.eval(weight, pools, self.contiguous[-1])
        frequencies = 10000.0 ** (-2 * mx.arange(shape.head_dim // 2) / shape.head_dim)
        turns = mx.arange(keys)[:, None] * frequencies
        self.angles = mx.concatenate([mx.cos(turns), mx.sin(turns)], axis=1)
        self.lengths = mx.where(mx.arange(SMALLEST) == 0, keys - 1, -1).astype(mx.int32)
        mx.eval(self.angles, self.lengths)

    def tables(self, partition: int) -> mx.array:
        """The sequence's pages, padded as the engine pads: (1, width)."""
        partitions = 1 << (-(-self.keys // partition) - 1).bit_length()
        table = np.full((1, partitions * partition // self.shape.page_size), -1, np.int32)
        used = len(self._order) - 2
        table[0, :used] = self._order[:used]
        return mx.array(table)


def main() -> None:
    """Prints a table, or JSON."""
    parser = argparse.ArgumentParser(prog="python -m tests.metal.attention_speed")
    parser.add_argument("--keys", default="128,2048,8192,32768", help="lengths, with commas between")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--heads", type=int, default=32)
    parser.add_argument("--kv-heads", type=int, default=4)
    parser.add_argument("--head-dim", type=int, default=64)
    parser.add_argument("--layers", type=int, default=22)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    executor = executor_here()
    rounds = options.rounds if executor != "emulated" else 0
    shape = decode_shape(options.heads, options.kv_heads, options.head_dim)
    rows = [
        measured(shape, keys, options.layers if rounds else 1, open_executor(executor, BUILD), rounds)
        for keys in map(int, options.keys.split(","))
    ]
    if options.json:
        print(json.dumps({"executor": executor, "rows": [asdict(row) for row in rows]}, indent=2))
    else:
        print("\n".join(table(rows)))


def executor_here() -> ExecutorName:
    """The GPU's, or the emulated one."""
    name = choose_executor(None).name
    return name if name == "metal" or name == "cuda" else "emulated"


def decode_shape(heads: int, kv_heads: int, head_dim: int) -> AttentionShape:
    """All of a head is rotated; pages of 16 tokens; float16."""
    return AttentionShape(heads, kv_heads, head_dim, head_dim, 16, mx.float16, head_dim**-0.5)


def measured(shape: AttentionShape, keys: int, layers: int, executor: Executor, rounds: int) -> Row:
    """Checks and times one length. Raises SystemExit when ours disagrees with MLX's."""
    data = Layers(shape, keys, layers)
    ours = {cut_name(data, cut): paged(data, executor, cut) for cut in cuts(shape)}
    errors = {name: error(data, step) for name, step in ours.items()}
    for name, found in errors.items():
        if not found <= TOLERANCE["float16"]:
            raise SystemExit(
                f"error: cut {name} at {keys} keys differs by {found:.1e} of the largest value from MLX's"
            )
    if not rounds:
        return Row(keys, errors, {}, {})
    taken = timed(data, {CONTIGUOUS: contiguous(data), **ours}, rounds)
    return Row(
        keys,
        errors,
        {name: median(times) for name, times in taken.items()},
        {name: (min(times), max(times)) for name, times in taken.items()},
    )


def cut_name(data: Layers, cut: DecodeCut) -> str:
    """The cut that runs: partition/simdgroups/rows/keys, and "a" where a team loads ahead."""
    partitions = data.tables(cut.partition).shape[1] * data.shape.page_size // cut.partition
    runs = cut_for(cut, data.shape.kv_heads * partitions)
    return f"{runs.partition}/{runs.simdgroups}/{runs.rows}/{runs.keys}{'a' if runs.ahead else ''}"


def paged(data: Layers, executor: Executor, cut: DecodeCut) -> Step:
    """Ours. Each layer's next launch takes what its last one made."""
    kernel = DecodeAttention(executor, Counter(), data.shape, cut)
    tables = data.tables(kernel.partition)
    fences = [no_fence(data.shape.dtype) for _ in data.pools]
    mx.eval(tables, fences)

    def step(layer: int, qkv: mx.array) -> mx.array:
        pages = Pages(Pools.whole(*data.pools[layer], fences[layer]), tables, data.lengths)
        fences[layer] = kernel(qkv, data.angles, pages)
        return fences[layer]

    return step


def contiguous(data: Layers) -> Step:
    """MLX's attention, of queries as they come and keys and values as they lie."""
    shape = data.shape

    def step(layer: int, qkv: mx.array) -> mx.array:
        queries = _queries(qkv, shape).reshape(1, shape.heads, 1, shape.head_dim)
        keys, values = data.contiguous[layer]
        out = mx.fast.scaled_dot_product_attention(queries, keys, values, scale=shape.scale)
        return out.reshape(1, -1)

    return step


def error(data: Layers, step: Step) -> float:
    """How far a new token's attention in the first layer is from MLX's of the same numbers in float32."""
    shape, last = data.shape, data.keys - 1
    qkv = normal((1, shape.qkv_width), shape.dtype, 1000)
    heads = reference_attention.split_heads(qkv.astype(mx.float32), data.angles[last:], shape)
    q, k, v = (part.swapaxes(0, 1)[None] for part in heads)  # (1, heads, 1, head_dim)
    keys, values = (
        mx.concatenate([old[:, :, :last], part.astype(shape.dtype)], axis=2).astype(mx.float32)
        for old, part in zip(data.contiguous[0], (k, v), strict=True)
    )
    exact = mx.fast.scaled_dot_product_attention(q, keys, values, scale=shape.scale).reshape(1, -1)
    return relative_error(step(0, qkv), wide(exact))


def timed(data: Layers, steps: Mapping[str, Step], rounds: int) -> dict[str, list[float]]:
    """Microseconds of a layer in each round by name, a layer's product taken off."""

    def nothing(_layer: int, qkv: mx.array) -> mx.array:
        return _queries(qkv, data.shape)

    sides: dict[str, Step] = {PRODUCT: nothing, **steps}
    x = normal((1, data.shape.heads * data.shape.head_dim), data.shape.dtype, 1001)
    run = {name: partial(_chain, data, step, x) for name, step in sides.items()}
    for chain in run.values():
        chain()  # compiles
    taken: dict[str, list[float]] = {name: [] for name in steps}
    names = list(run)
    for number in range(rounds):
        first = number % len(names)
        seconds = {name: run[name]() for name in names[first:] + names[:first]}
        for name in steps:
            links = TURNS * len(data.weights)
            taken[name].append(1e6 * (seconds[name] - seconds[PRODUCT]) / links)
    return taken


def _chain(data: Layers, step: Step, x: mx.array) -> float:
    """Seconds of a chain, built before the clock starts."""
    for _ in range(TURNS):
        for layer, weight in enumerate(data.weights):
            x = step(layer, x @ weight.T)
    began = perf_counter()
    mx.eval(x)
    return perf_counter() - began


def _queries(qkv: mx.array, shape: AttentionShape) -> mx.array:
    return qkv[:, : shape.heads * shape.head_dim]


def table(rows: Sequence[Row]) -> Iterable[str]:
    """The rows in Markdown; ours is the fastest cut, with the largest error of all."""
    yield "| keys | contiguous SDPA, µs | ours, µs | cut | ours / SDPA | error |"
    yield "|---|---|---|---|---|---|"
    for row in rows:
        yield f"| {row.keys:,} | {' | '.join(_figures(row))} | {max(row.errors.values()):.1e} |"
    if not all(row.microseconds for row in rows):
        yield "emulated kernels are not timed"


def _figures(row: Row) -> tuple[str, str, str, str]:
    """MLX's time, ours, the cut, and the ratio."""
    if not row.microseconds:
        return "–", "–", ", ".join(row.errors), "–"
    best = min(row.errors, key=lambda name: row.microseconds[name])
    mlx, ours = row.microseconds[CONTIGUOUS], row.microseconds[best]
    spread = {name: f"({low:.1f} to {high:.1f})" for name, (low, high) in row.spread.items()}
    return f"{mlx:.1f} {spread[CONTIGUOUS]}", f"{ours:.1f} {spread[best]}", best, f"{ours / mlx:.2f}"


if __name__ == "__main__":
    main()
