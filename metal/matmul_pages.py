"""Launches matmul.metal for 16 or 32 rows of a prompt: projections that go to pages as they are made."""

from __future__ import annotations

from collections import Counter

import mlx.core as mx
import numpy as np

from metal.attention_shape import AttentionShape
from metal.errors import KernelError
from metal.executors import Executor, Output
from metal.kernel import Kernel
from metal.matmul import FewRows, MatmulCut, matmul_cuts
from metal.matvec import Norm
from metal.matvec_weight import DenseWeight
from metal.pools import SMALLEST, Pools, check_arrays
from metal.touched import Launched, Touched

_TOO_WIDE = ("2x16x2/16", "3x4x4/4")
"""On an H200 the first has not the registers for what turns rows, and the second spills some (nvcc)."""


def page_cuts() -> dict[str, MatmulCut]:
    """Those worth measuring, by name."""
    paired = matmul_cuts(is_paired=True).items()
    return {name: cut for name, cut in paired if name not in _TOO_WIDE}


def takes_heads(shape: AttentionShape) -> bool:
    """Whether heads are turned as a whole, and not normalised: what a product can do as it ends."""
    return shape.rotary_dims == shape.head_dim and shape.norm_epsilon is None


class MatmulPages:
    """Normalises, projects and rotates rows, and writes their keys and values to pages: see PageWrite.

    The page that the rows go on with gets, in the same launch, what another has before them: copy-on-write.

    Args:
        executor: what runs the kernel.
        launches: counts launches by kernel name.
        weight: of queries, keys and values, (qkv_width, K) of 16-bit floats, K a multiple of 32.
        cut: how the work is cut.
        shape: of the layer's attention, of which `takes_heads`.
        norm: normalises x first; its weight in the dtype of W.
        bias: (qkv_width,) floats.

    Raises:
        KernelError: a shape, weight, norm or bias that the kernel does not take.
    """

    def __init__(
        self,
        executor: Executor,
        launches: Counter[str],
        weight: DenseWeight,
        cut: MatmulCut,
        shape: AttentionShape,
        *,
        norm: Norm,
        bias: mx.array | None = None,
    ) -> None:
        shape.check()
        if not takes_heads(shape) or (weight.rows, weight.weight.dtype) != (shape.qkv_width, shape.dtype):
            raise KernelError(f"matmul: a weight {weight.weight.shape} does not make heads of {shape}")
        self._shape, self._rows = shape, FewRows(weight, shape.head_dim, cut, norm, bias)
        self._kernel = Kernel(
            "matmul",
            inputs=("x", *self._rows.arrays, "angles", "slots", "keys", "values", "fence"),
            outputs=("queries",),
            executor=executor,
            launches=launches,
            in_place=("keys", "values"),
            features={**self._rows.features, "RESIDUAL": 0, "ACTIVATION": 0, "PAGES": 1},
        )

    def __call__(self, x: mx.array, angles: mx.array, slots: mx.array, pools: Pools) -> mx.array:
        """Rotated queries (heads, rows, head_dim), which are the next fence, too.

        Args:
            x: (rows, K), rows 16 or 32, in the weight's dtype.
            angles: float32 (rows, head_dim), cosines then sines of each row's position.
            slots: int32 (rows + 8,): where each row goes, no slot twice; -1 for one that goes nowhere. Behind
                them a page, another, and how many tokens from its first on the other gets of it, to none of
                which rows go; 0 copies nothing. And how many tokens the pools have room for; what is behind
                that means nothing.
            pools: written in place.

        Raises:
            KernelError: arrays that do not fit together.
        """
        shape, rows, columns = self._shape, x.shape[0], self._shape.qkv_width // 2
        self._rows.check(x)
        pools.check("matmul", shape)
        expected = {
            "angles": (angles, (rows, shape.head_dim), mx.float32),
            "slots": (slots, (rows + SMALLEST,), mx.int32),
        }
        check_arrays("matmul", expected)
        inputs = {"x": x, **self._rows.arrays, "angles": angles, "slots": slots}
        inputs |= {"keys": pools.keys, "values": pools.values, "fence": pools.fence}
        (threads, _, _), threadgroup = self._rows.sizes(columns)
        heads = {"HEADS": shape.heads, "KV_HEADS": shape.kv_heads, "HEAD_DIM": shape.head_dim}
        (queries,) = self._kernel(
            inputs,
            grid=(threads + threadgroup[0], 1, 1),
            threadgroup=threadgroup,
            outputs=[Output((shape.heads, rows, shape.head_dim), shape.dtype)],
            template={**self._rows.template(x, columns), **heads, "PAGE": shape.page_size},
        )
        return queries


def touched(launch: Launched) -> Touched:
    """Writes where rows go; of the pair it reads one, and writes the other."""
    slots, pair = np.split(launch.integers("slots"), [-SMALLEST])
    source, target, copied, *_ = pair.tolist()
    written = frozenset((slots[slots >= 0] // launch.page_size).tolist())
    return Touched(frozenset({source}), written | {target}) if copied else Touched(writes=written)
