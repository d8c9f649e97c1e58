"""Launches matvec.metal and matvec_affine.metal: a weight times 1 to 8 rows, what precedes it and follows."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal

import mlx.core as mx

from metal.errors import KernelError
from metal.executors import Executor, Output, Size, TemplateValue
from metal.kernel import LANES, Kernel
from metal.matvec_cut import MAX_ROWS, Cut, Work, default_cut
from metal.matvec_weight import DTYPES, Weight

Activation = Literal["silu", "gelu"]

ACTIVATIONS: dict[Activation | None, int] = {None: 0, "silu": 1, "gelu": 2}
"""What texts are compiled with."""


@dataclass(frozen=True, slots=True)
class Norm:
    """RMSNorm of x before the product: `weight` (width,), `epsilon` added to the mean square."""

    weight: mx.array
    epsilon: float


@dataclass(frozen=True, slots=True)
class _Launch:
    """What is the same in every launch for x of one shape and dtype."""

    kernel: Kernel
    grid: Size
    threadgroup: Size
    outputs: tuple[Output, ...]
    template: dict[str, TemplateValue]


class Matvec:
    """y = f(W · norm(x) + bias) + residual for one weight W; only the product is always there.

    With an activation W has the rows of gates, then as many of ups, and f(g, u) = activation(g) · u
    (Shazeer 2020, arXiv:2002.05202). Everything is summed in float32 and rounded once.

    Args:
        executor: what runs the kernel.
        launches: counts launches by kernel name.
        weight: W, (N or 2N, K).
        norm: normalises x first.
        bias: (N,) or with an activation (2N,); floats.
        activation: "silu", or "gelu" in its tanh form.
        out_dtype: float32, float16 or bfloat16; that of x when None.
        cut: how the work is cut; `default_cut` when None.

    Raises:
        KernelError: a weight, norm or bias that the kernel does not take.
    """

    def __init__(
        self,
        executor: Executor,
        launches: Counter[str],
        weight: Weight,
        *,
        norm: Norm | None = None,
        bias: mx.array | None = None,
        activation: Activation | None = None,
        out_dtype: mx.Dtype | None = None,
        cut: Cut | None = None,
    ) -> None:
        weight.check()
        self._executor, self._launches, self._weight, self._cut = executor, launches, weight, cut
        self._activation, self._out_dtype = ACTIVATIONS[activation], out_dtype
        if activation is not None and weight.rows % 2:
            raise KernelError(f"matvec: {weight.rows} rows are not as many gates as ups")
        if out_dtype is not None and out_dtype not in DTYPES:
            raise KernelError(f"matvec: an answer in {out_dtype} is not supported; floats are")
        self._types = dict(weight.types)
        self._epsilon = 0.0
        self._columns = weight.rows if activation is None else weight.rows // 2
        self._arrays = dict(weight.arrays)
        if norm is not None:
            check_vector("norm", norm.weight, weight.width)
            self._arrays["norm"] = norm.weight
            self._types["W"] = norm.weight.dtype
            self._epsilon = float(norm.epsilon)
        if bias is not None:
            check_vector("bias", bias, weight.rows)
            self._arrays["bias"] = bias
        self._kernels: dict[tuple[int, mx.Dtype, bool], Kernel] = {}
        self._prepared: dict[tuple[int, mx.Dtype, bool], _Launch] = {}

    def __call__(self, x: mx.array, residual: mx.array | None = None) -> mx.array:
        """The product; (m, N).

        Args:
            x: (m, K), 1 to 8 rows, in the dtype of a dense weight; any of the three with a quantised one.
            residual: (m, N) in the dtype of x, added last.

        Raises:
            KernelError: arrays that do not fit the weight.
        """
        key = (x.shape[0], x.dtype, residual is not None)
        if (launch := self._prepared.get(key)) is None:
            launch = self._prepared[key] = self._prepare(x, is_added=residual is not None)
        inputs = {"x": x, **self._arrays}
        if residual is not None:
            inputs["residual"] = residual
            if residual.shape != (x.shape[0], self._columns) or residual.dtype != x.dtype:
                raise KernelError(
                    f"matvec: a residual {residual.shape} {residual.dtype} for an answer "
                    f"{(x.shape[0], self._columns)} of x in {x.dtype}"
                )
        if x.shape[1:] != (self._weight.width,):
            raise KernelError(f"matvec: x {x.shape} for a weight of width {self._weight.width}")
        (y,) = launch.kernel(
            inputs,
            grid=launch.grid,
            threadgroup=launch.threadgroup,
            outputs=launch.outputs,
            template=launch.template,
        )
        return y

    def _prepare(self, x: mx.array, *, is_added: bool) -> _Launch:
        rows, weight = x.shape[0], self._weight
        if not 1 <= rows <= MAX_ROWS:
            raise KernelError(f"matvec: {rows} rows are not supported; 1 to {MAX_ROWS} are")
        if not weight.takes(x.dtype):
            raise KernelError(f"matvec: x in {x.dtype} does not fit the weight")
        cut = self._cut or default_cut(
            Work(rows, self._columns, weight.width, weight.lane_width, gated=self._activation > 0)
        )
        groups = -(-self._columns // (cut.outputs * (cut.simdgroups // cut.split)))
        threads = cut.simdgroups * LANES
        dtype = self._out_dtype or x.dtype
        return _Launch(
            self._kernel(cut.split, x.dtype, is_added=is_added),
            (groups * threads, 1, 1),
            (threads, 1, 1),
            (Output((rows, self._columns), dtype),),
            {
                **self._types,
                "T": x.dtype,
                "RESULT": dtype,
                "M": rows,
                "N": self._columns,
                "K": weight.width,
                "OUTPUTS": cut.outputs,
                "SIMDGROUPS": cut.simdgroups,
                "UNROLL": cut.unroll,
                "COUNT": cut.count(rows),
            },
        )

    def _kernel(self, split: int, dtype: mx.Dtype, *, is_added: bool) -> Kernel:
        key = (split, dtype, is_added)
        if key not in self._kernels:
            self._kernels[key] = Kernel(
                self._weight.kernel,
                inputs=("x", *self._arrays, *(("residual",) if is_added else ())),
                outputs=("y",),
                executor=self._executor,
                launches=self._launches,
                features={
                    "NORM": int("norm" in self._arrays),
                    "EPSILON": self._epsilon,
                    "BIAS": int("bias" in self._arrays),
                    "RESIDUAL": int(is_added),
                    "ACTIVATION": self._activation,
                    "SPLIT": split,
                    **self._weight.features(dtype),
                },
            )
        return self._kernels[key]


def check_vector(name: str, array: mx.array, size: int) -> None:
    """Raises KernelError for a norm or a bias that products do not take."""
    if array.shape != (size,) or array.dtype not in DTYPES:
        raise KernelError(f"matvec: a {name} {array.shape} {array.dtype}; ({size},) of floats is taken")
