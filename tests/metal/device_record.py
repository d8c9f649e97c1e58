"""Records a layer's launches for `device_time`: `python -m tests.metal.device_record FOLDER [--model 8b] …`.

MLX's host takes 5 to 13 µs for a launch, longer than many of them run, so that chains of launches through
MLX say little of a kernel. Here the text of each launch of a short chunk's layer is written as CUDA, with its
grid and the integers that it reads. `device_time` then needs neither MLX nor this project.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import cast

import mlx.core as mx

from metal.attention_shape import AttentionShape
from metal.constants import device_integers
from metal.executors import Launcher, Request, Signature
from metal.matmul import Matmul, matmul_cuts
from metal.matmul_pages import MatmulPages, page_cuts
from metal.matvec import Activation, Norm
from metal.matvec_weight import DenseWeight
from metal.pools import SMALLEST, Pools, no_fence
from metal.prefill_attention import PrefillAttention, PrefillCut
from metal.sequences import Sequences, numbers_of_one
from metal.source import KernelSource
from tests.metal.test_cuda import cuda_text

F16 = mx.float16


@dataclass(frozen=True, slots=True)
class Size:
    """Of a model's layer."""

    hidden: int
    inner: int
    heads: int
    kv_heads: int
    head_dim: int


SIZES = {"tinyllama": Size(2048, 5632, 32, 4, 64), "8b": Size(4096, 14336, 32, 8, 128)}


@dataclass(frozen=True, slots=True)
class Array:
    """Of a launch: its name, a number that is the same where the array is, shape and dtype."""

    name: str
    number: int
    shape: Sequence[int]
    dtype: str
    integers: Sequence[int] | None


@dataclass(frozen=True, slots=True)
class Recorded:
    """A launch: the file with its text, and what it is launched with."""

    kernel: str
    file: str
    grid: Sequence[int]
    threadgroup: Sequence[int]
    inputs: Sequence[Array]
    outputs: Sequence[Array]


@dataclass(slots=True)
class Recording:
    """An executor that runs nothing: each launch is kept."""

    folder: Path
    launches: list[Recorded] = field(default_factory=list[Recorded])
    _seen: list[mx.array] = field(default_factory=list[mx.array])

    def build(self, source: KernelSource, signature: Signature) -> Launcher:
        """See `Executor.build`; outputs are zeros."""

        def launch(request: Request) -> list[mx.array]:
            made = [mx.zeros(output.shape, output.dtype) for output in request.outputs]
            inputs = [self._array(*pair) for pair in zip(signature.inputs, request.inputs, strict=True)]
            outputs = [self._array(*pair) for pair in zip(signature.outputs, made, strict=True)]
            arrays = {array.name: array.dtype for array in inputs}
            arrays |= {array.name: f">{array.dtype}" for array in outputs}
            template = {
                name: _name(value) if isinstance(value, mx.Dtype) else value
                for name, value in request.template.items()
            }
            text = cuda_text(source, arrays, template).replace("__global__", 'extern "C" __global__', 1)
            file = f"{len(self.launches):02}_{source.name}.cu"
            (self.folder / file).write_text(text)
            groups = [all_ // each for all_, each in zip(request.grid, request.threadgroup, strict=True)]
            self.launches.append(Recorded(source.name, file, groups, request.threadgroup, inputs, outputs))
            return made

        return launch

    def _array(self, name: str, array: mx.array) -> Array:
        number = next((n for n, seen in enumerate(self._seen) if seen is array), len(self._seen))
        if number == len(self._seen):
            self._seen.append(array)
        integers = None
        if array.dtype in (mx.int32, mx.uint32):
            integers = cast("list[int]", array.reshape(-1).tolist())
        return Array(name, number, array.shape, _name(array.dtype), integers)


def _name(dtype: mx.Dtype) -> str:
    return str(dtype).removeprefix("mlx.core.")


def record_layer(executor: Recording, size: Size, begin: int, tokens: int, cut: PrefillCut | None) -> None:
    """A layer of a chunk of `tokens`, to 32, behind `begin` others: products and attention."""
    rows, room = 32, max(256, 1 << (begin + tokens - 1).bit_length())
    launches = Counter[str]()
    shape = AttentionShape(
        *(size.heads, size.kv_heads, size.head_dim, size.head_dim, 16, F16, size.head_dim**-0.5)
    )

    norm = Norm(mx.zeros((size.hidden,), F16), 1e-5)

    def weight(columns: int, width: int) -> DenseWeight:
        return DenseWeight(mx.zeros((columns, width), F16))

    def product(columns: int, width: int, activation: Activation | None = None) -> Matmul:
        cut = next(iter(matmul_cuts(is_paired=activation is not None).values()))
        before = norm if activation else None
        return Matmul(executor, launches, weight(columns, width), cut, norm=before, activation=activation)

    attention = PrefillAttention(executor, launches, shape, cut)
    goes = [begin + row if row < tokens else -1 for row in range(rows)]
    slots = mx.array([*goes, 0, 0, 0, room, *[0] * (SMALLEST - 4)], dtype=mx.int32)
    pool = (size.kv_heads, room, size.head_dim)
    pools = Pools(mx.zeros(pool, F16), mx.zeros(pool, F16), no_fence(F16), device_integers(room))
    x, angles = mx.zeros((rows, size.hidden), F16), mx.zeros((rows, size.head_dim))
    projections = weight(shape.qkv_width, size.hidden)
    project = MatmulPages(executor, launches, projections, next(iter(page_cuts().values())), shape, norm=norm)
    queries = project(x, angles, slots, pools)
    numbers = numbers_of_one(begin, tokens, list(range(room // 16)), slots=room, rows=rows)
    sequences = Sequences(1, mx.array(numbers, dtype=mx.int32), room // 16)
    out, _ = attention(queries, pools, sequences, rows, parts=attention.parts(rows, room))
    x = product(size.hidden, size.heads * size.head_dim)(out, x)
    product(size.hidden, size.inner)(product(2 * size.inner, size.hidden, "silu")(x), x)


def main(arguments: Sequence[str] | None = None) -> None:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m tests.metal.device_record")
    parser.add_argument("folder", type=Path, help="an empty one, for device_time")
    parser.add_argument("--model", choices=SIZES, default="tinyllama")
    parser.add_argument("--begin", type=int, default=8192, help="tokens before the chunk")
    parser.add_argument("--tokens", type=int, default=29, help="of the chunk, 1 to 32")
    parser.add_argument("--cut", help='of attention, such as 2x4x32, or "2x8x16 striped"')
    args = parser.parse_args(arguments)
    args.folder.mkdir(parents=True, exist_ok=True)
    executor = Recording(args.folder)
    sizes, _, striped = (args.cut or "").partition(" ")
    cut = PrefillCut(*map(int, sizes.split("x")), striped == "striped") if sizes else None
    record_layer(executor, SIZES[args.model], args.begin, args.tokens, cut)
    (args.folder / "launches.json").write_text(json.dumps([asdict(each) for each in executor.launches]))


if __name__ == "__main__":
    main()
