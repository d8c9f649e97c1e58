"""Launches matmul.metal: a dense weight times 16 or 32 rows, and what follows the product."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import mlx.core as mx

from metal.errors import KernelError
from metal.executors import Executor, Output
from metal.kernel import LANES, Kernel
from metal.matvec import ACTIVATIONS, Activation, check_vector
from metal.matvec_weight import DenseWeight

_ROWS = (16, 32)
_WIDTH_STEP, _COLUMN_STEP = 32, 8
_DTYPES = (mx.float16, mx.bfloat16)


@dataclass(frozen=True, slots=True)
class MatmulCut:
    """Which is fastest depends on the machine and on the weight's size.

    Attributes:
        tiles: columns that a simdgroup takes, by eight.
        simdgroups: of a threadgroup.
        unroll: accesses of 32 elements to each row of the weight that are under way at a time.
        split: simdgroups of a threadgroup that share columns, each with a part of the sum.
    """

    tiles: int
    simdgroups: int
    unroll: int
    split: int

    @property
    def name(self) -> str:
        """What it is called in trials."""
        return f"{self.tiles}x{self.simdgroups}x{self.unroll}/{self.split}"


_CUTS = (
    MatmulCut(4, 8, 2, 8),
    MatmulCut(2, 8, 2, 8),
    MatmulCut(4, 16, 2, 16),
    MatmulCut(2, 16, 2, 16),
)
_GATED_CUTS = (
    MatmulCut(2, 8, 2, 4),
    MatmulCut(2, 4, 2, 4),
    MatmulCut(2, 16, 2, 8),
    MatmulCut(2, 16, 2, 16),
)


def matmul_cuts(activation: Activation | None) -> dict[str, MatmulCut]:
    """Those worth measuring, by name."""
    return {cut.name: cut for cut in (_CUTS if activation is None else _GATED_CUTS)}


def takes_rows(rows: int) -> bool:
    """Whether a launch takes so many rows of x."""
    return rows in _ROWS


class Matmul:
    """y = f(W · x + bias) + residual for one dense weight W; only the product is always there.

    With an activation W has the rows of gates, then as many of ups: see Matvec. Everything is summed in
    float32 and rounded once.

    Args:
        executor: what runs the kernel.
        launches: counts launches by kernel name.
        weight: W, (N or 2N, K) of 16-bit floats, K a multiple of 32 and N of 8.
        bias: (N,) or with an activation (2N,); floats.
        activation: "silu", or "gelu" in its tanh form.
        cut: how the work is cut.

    Raises:
        KernelError: a weight or bias that the kernel does not take.
    """

    def __init__(
        self,
        executor: Executor,
        launches: Counter[str],
        weight: DenseWeight,
        cut: MatmulCut,
        *,
        bias: mx.array | None = None,
        activation: Activation | None = None,
    ) -> None:
        weight.check()
        self._columns = weight.rows if activation is None else weight.rows // 2
        step = _COLUMN_STEP if activation is None else 2 * _COLUMN_STEP
        if weight.weight.dtype not in _DTYPES or weight.width % _WIDTH_STEP or weight.rows % step:
            raise KernelError(
                f"matmul: a weight {weight.weight.shape} {weight.weight.dtype} is not supported; "
                f"floats of 16 bits, by {step} in rows and {_WIDTH_STEP} in width, are"
            )
        self._executor, self._launches, self._weight, self._cut = executor, launches, weight, cut
        self._arrays = dict(weight.arrays)
        if bias is not None:
            check_vector("bias", bias, weight.rows)
            self._arrays["bias"] = bias
        self._activation = ACTIVATIONS[activation]
        self._kernels: dict[bool, Kernel] = {}

    def __call__(self, x: mx.array, residual: mx.array | None = None) -> mx.array:
        """The product; (m, N) in the dtype of x.

        Args:
            x: (m, K), m 16 or 32, in the weight's dtype.
            residual: (m, N) in that dtype, added last.

        Raises:
            KernelError: arrays that do not fit the weight.
        """
        weight, cut = self._weight, self._cut
        if (
            x.ndim != 2
            or not takes_rows(x.shape[0])
            or x.shape[1] != weight.width
            or not weight.takes(x.dtype)
        ):
            raise KernelError(
                f"matmul: x {x.shape} {x.dtype} for a weight of width {weight.width} in "
                f"{weight.weight.dtype}; 16 or 32 rows are taken"
            )
        inputs, shape = {"x": x, **self._arrays}, (x.shape[0], self._columns)
        if residual is not None:
            inputs["residual"] = residual
            if residual.shape != shape or residual.dtype != x.dtype:
                raise KernelError(
                    f"matmul: a residual {residual.shape} {residual.dtype} for an answer {shape} {x.dtype}"
                )
        threads = cut.simdgroups * LANES
        wide = 8 * cut.tiles * (cut.simdgroups // cut.split)
        (y,) = self._kernel(is_added=residual is not None)(
            inputs,
            grid=(-(-self._columns // wide) * threads, 1, 1),
            threadgroup=(threads, 1, 1),
            outputs=[Output(shape, x.dtype)],
            template={
                **{"T": x.dtype, "M": x.shape[0], "N": self._columns, "K": weight.width},
                **{"TILES": cut.tiles, "SIMDGROUPS": cut.simdgroups},
                **{"UNROLL": cut.unroll, "SPLIT": cut.split},
            },
        )
        return y

    def _kernel(self, *, is_added: bool) -> Kernel:
        if is_added not in self._kernels:
            self._kernels[is_added] = Kernel(
                "matmul",
                inputs=("x", *self._arrays, *(("residual",) if is_added else ())),
                outputs=("y",),
                executor=self._executor,
                launches=self._launches,
                features={
                    "BIAS": int("bias" in self._arrays),
                    "RESIDUAL": int(is_added),
                    "ACTIVATION": self._activation,
                },
            )
        return self._kernels[is_added]
