"""How fast a product of one row is in each form that a block format's weights can lie in, and placing them.

    .venv/bin/python -m tests.engine.layers.placement_speed [rows width pairs]

Forms take turns, so that what else the machine does falls on all of them. "each time" is what runs where
kernels are there but off.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Mapping
from time import perf_counter

from engine import blas  # before mlx

# isort: split
import mlx.core as mx
import numpy as np

from engine.layers.matrix import BlockTensor, QuantizedTensor, placed
from engine.loading.gguf.placement import Placement, place
from engine.machine.machine import compute_dtype, device_kind
from metal.block_types import BLOCK_TYPES, BlockType
from metal.repack import PACKINGS
from tests.metal.numbers import normal
from tests.metal.random_blocks import random_blocks


def main(rows: int = 4096, width: int = 4096, pairs: int = 9) -> None:
    """Print milliseconds of a product, and million weights placed a second, for each format and form."""
    dtype = compute_dtype("float16")
    print(f"{rows} x {width}, {str(dtype).removeprefix('mlx.core.')}, {device_kind()}, {blas.LOADED}")
    print("format ", *(f"{name:>12}" for name in ("packed", "dense", "each time", "to packed", "to dense")))
    for block_type in BLOCK_TYPES:
        some = random_blocks(block_type, 64, width, np.random.default_rng(0))
        blocks, x = mx.array(np.tile(some, (rows // 64, 1))), normal((1, width), dtype)
        mx.eval(blocks, x)
        figures = _measure(blocks, block_type, x, pairs)
        print(f"{block_type!s:7}", *("           –" if one is None else f"{one:12.1f}" for one in figures))


def _measure(blocks: mx.array, block_type: BlockType, x: mx.array, pairs: int) -> list[float | None]:
    dense = Placement(block_type, "dense", x.dtype, None, "")
    forms = {"dense": dense, "packed": place(block_type, x.dtype, ())}
    if block_type not in PACKINGS:
        del forms["packed"]
    tensors = {name: placed(blocks, form) for name, form in forms.items()}

    def product(tensor: mx.array | QuantizedTensor | BlockTensor) -> Callable[[], None]:
        return lambda: mx.eval(x @ tensor.T if isinstance(tensor, mx.array) else tensor.matmul(x))

    def placing(form: Placement) -> Callable[[], object]:
        return lambda: placed(blocks, form)

    products = {name: product(tensor) for name, tensor in tensors.items()}
    ms = _medians({**products, "each time": product(BlockTensor(blocks, block_type))}, pairs)
    seconds = _medians({name: placing(form) for name, form in forms.items()}, 3)
    return [
        *(ms[name] * 1e3 if name in ms else None for name in ("packed", "dense", "each time")),
        *(_rate(blocks, block_type, seconds.get(name)) for name in ("packed", "dense")),
    ]


def _rate(blocks: mx.array, block_type: BlockType, seconds: float | None) -> float | None:
    weights = blocks.shape[0] * block_type.width(blocks.shape[1])
    return None if seconds is None else weights / seconds / 1e6


def _medians(runs: Mapping[str, Callable[[], object]], pairs: int) -> dict[str, float]:
    """Seconds of each, by turns; the first turn does not count."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(pairs + 1):
        for name, run in runs.items():
            begun = perf_counter()
            run()
            if turn:
                seconds[name].append(perf_counter() - begun)
    return {name: statistics.median(found) for name, found in seconds.items()}


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
