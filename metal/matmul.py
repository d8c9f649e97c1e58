"""Launches matmul.metal: a dense weight times 16 or 32 rows, what precedes the product and what follows."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

import mlx.core as mx

from metal.errors import KernelError
from metal.executors import Executor, Output, Size, TemplateValue
from metal.kernel import LANES, Kernel
from metal.matvec import ACTIVATIONS, Activation, Norm, check_vector
from metal.matvec_weight import DenseWeight
from metal.pools import SMALLEST
from metal.source import Feature

_ROWS = (16, 32)
_WIDTH_STEP, _COLUMN_STEP = 32, 8
_DTYPES = (mx.float16, mx.bfloat16)
_POWERS = {mx.float16: (-14, 15), mx.bfloat16: (-126, 127)}
"""Of two, that a dtype has as normal numbers."""


@dataclass(frozen=True, slots=True)
class MatmulCut:
    """Which is fastest depends on the machine and on the weight's size.

    Attributes:
        tiles: columns that a simdgroup takes, by eight.
        simdgroups: of a threadgroup, an even number.
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
    MatmulCut(2, 16, 2, 16),
    MatmulCut(2, 8, 4, 8),
    MatmulCut(4, 8, 2, 8),
    MatmulCut(2, 12, 4, 6),
    MatmulCut(2, 12, 4, 12),
)
_PAIRED_CUTS = (
    MatmulCut(1, 8, 2, 8),
    MatmulCut(2, 8, 2, 8),
    MatmulCut(2, 8, 4, 8),
    MatmulCut(2, 16, 2, 16),
    MatmulCut(4, 8, 2, 8),
    MatmulCut(4, 4, 2, 4),
    MatmulCut(3, 4, 4, 4),
)


def matmul_cuts(*, is_paired: bool) -> dict[str, MatmulCut]:
    """Those worth measuring, by name; `is_paired` with an activation. For pages see `page_cuts`."""
    return {cut.name: cut for cut in (_PAIRED_CUTS if is_paired else _CUTS)}


def takes_rows(rows: int) -> bool:
    """Whether a launch takes so many rows of x."""
    return rows in _ROWS


class FewRows:
    """A weight, its norm and its bias as matmul.metal takes them, in one cut.

    Attributes:
        arrays: the kernel's inputs but x, by name.
        features: what its text is compiled with for them.

    Args:
        weight: W, of 16-bit floats, K a multiple of 32.
        step: what the rows of W are a multiple of.
        cut: how the work is cut.
        norm: normalises x first; its weight in the dtype of W.
        bias: (rows,) floats.

    Raises:
        KernelError: a weight, norm or bias that the kernel does not take.
    """

    def __init__(
        self, weight: DenseWeight, step: int, cut: MatmulCut, norm: Norm | None, bias: mx.array | None
    ) -> None:
        weight.check()
        if weight.weight.dtype not in _DTYPES or weight.width % _WIDTH_STEP or weight.rows % step:
            raise KernelError(
                f"matmul: a weight {weight.weight.shape} {weight.weight.dtype} is not supported; "
                f"floats of 16 bits, by {step} in rows and {_WIDTH_STEP} in width, are"
            )
        if cut.simdgroups % 2:
            raise KernelError(f"matmul: {cut.simdgroups} simdgroups; an even number is taken")
        self._weight, self._cut = weight, cut
        self.arrays = dict(weight.arrays)
        self.features: dict[str, Feature] = {"BIAS": int(bias is not None), "NORM": int(norm is not None)}
        if norm is not None:
            check_vector("norm", norm.weight, weight.width)
            if norm.weight.dtype != weight.weight.dtype:
                raise KernelError(f"matmul: a norm in {norm.weight.dtype} for {weight.weight.dtype}")
            self.arrays["norm"] = _scaled(norm.weight)
            self.features["EPSILON"] = float(norm.epsilon)
        if bias is not None:
            check_vector("bias", bias, weight.rows)
            self.arrays["bias"] = bias

    def check(self, x: mx.array) -> None:
        """Raises KernelError for rows that do not fit the weight."""
        weight = self._weight
        is_fitting = x.ndim == 2 and takes_rows(x.shape[0]) and x.shape[1] == weight.width
        if not is_fitting or not weight.takes(x.dtype):
            raise KernelError(
                f"matmul: x {x.shape} {x.dtype} for a weight of width {weight.width} in "
                f"{weight.weight.dtype}; 16 or 32 rows are taken"
            )

    def sizes(self, columns: int) -> tuple[Size, Size]:
        """Grid and threadgroup for so many columns, or pairs of columns."""
        cut = self._cut
        threads, wide = cut.simdgroups * LANES, 8 * cut.tiles * (cut.simdgroups // cut.split)
        return (-(-columns // wide) * threads, 1, 1), (threads, 1, 1)

    def template(self, x: mx.array, columns: int) -> dict[str, TemplateValue]:
        """The values that the text names, for x and so many columns, or pairs of columns."""
        cut = self._cut
        return {
            **{"T": x.dtype, "M": x.shape[0], "N": columns, "K": self._weight.width},
            **{"TILES": cut.tiles, "SIMDGROUPS": cut.simdgroups, "UNROLL": cut.unroll, "SPLIT": cut.split},
        }


def _scaled(weight: mx.array) -> mx.array:
    """A norm's weight (K,) by a power of two that leaves nothing above 1, and that power behind it: (K + 8,).

    Where its dtype has no such power, by the largest or the smallest that it has.
    """
    most = float(mx.abs(weight.astype(mx.float32)).max())
    least_power, most_power = _POWERS[weight.dtype]
    power = math.ceil(math.log2(most)) if 0 < most < math.inf else 0
    gain = 2.0 ** min(max(power, least_power), most_power)
    scaled = mx.concatenate([weight.astype(mx.float32) / gain, mx.zeros((SMALLEST,), mx.float32) + gain])
    scaled = scaled.astype(weight.dtype)
    mx.eval(scaled)
    return scaled


class Matmul:
    """y = f(W · norm(x) + bias) + residual for one dense weight W; only the product is always there.

    With an activation W has the rows of gates, then as many of ups: see Matvec. Everything is summed in
    float32 and rounded once, but that x is multiplied by the norm's weight in its own dtype.

    Args:
        executor: what runs the kernel.
        launches: counts launches by kernel name.
        weight: W, (N or 2N, K) of 16-bit floats, K a multiple of 32 and N of 8.
        norm: normalises x first; its weight in the dtype of W.
        bias: (N,) or with an activation (2N,); floats.
        activation: "silu", or "gelu" in its tanh form.
        cut: how the work is cut.

    Raises:
        KernelError: a weight, norm or bias that the kernel does not take.
    """

    def __init__(
        self,
        executor: Executor,
        launches: Counter[str],
        weight: DenseWeight,
        cut: MatmulCut,
        *,
        norm: Norm | None = None,
        bias: mx.array | None = None,
        activation: Activation | None = None,
    ) -> None:
        self._columns = weight.rows if activation is None else weight.rows // 2
        step = _COLUMN_STEP if activation is None else 2 * _COLUMN_STEP
        self._executor, self._launches = executor, launches
        self._rows = FewRows(weight, step, cut, norm, bias)
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
        self._rows.check(x)
        inputs, shape = {"x": x, **self._rows.arrays}, (x.shape[0], self._columns)
        if residual is not None:
            inputs["residual"] = residual
            if residual.shape != shape or residual.dtype != x.dtype:
                raise KernelError(
                    f"matmul: a residual {residual.shape} {residual.dtype} for an answer {shape} {x.dtype}"
                )
        grid, threadgroup = self._rows.sizes(self._columns)
        (y,) = self._kernel(is_added=residual is not None)(
            inputs,
            grid=grid,
            threadgroup=threadgroup,
            outputs=[Output(shape, x.dtype)],
            template=self._rows.template(x, self._columns),
        )
        return y

    def _kernel(self, *, is_added: bool) -> Kernel:
        if is_added not in self._kernels:
            self._kernels[is_added] = Kernel(
                "matmul",
                inputs=("x", *self._rows.arrays, *(("residual",) if is_added else ())),
                outputs=("y",),
                executor=self._executor,
                launches=self._launches,
                features={
                    **self._rows.features,
                    "RESIDUAL": int(is_added),
                    "ACTIVATION": self._activation,
                    "PAGES": 0,
                },
            )
        return self._kernels[is_added]
