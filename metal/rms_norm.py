"""Launches rms_norm.metal: RMS normalisation of rows, alone or after adding a residual.

y = weight · h / sqrt(mean(h²) + epsilon) over the last dimension (Zhang and Sennrich 2019, arXiv:1910.07467).
"""

from collections import Counter
from dataclasses import dataclass

import mlx.core as mx

from metal.errors import KernelError
from metal.executors import Executor, Output
from metal.kernel import LANES, Kernel

_DTYPES = (mx.float32, mx.float16, mx.bfloat16)
_MAX_SIMDGROUPS = 32
_MAX_WIDTH = 32768  # a thread then holds 32 numbers; with 64 the launch failed on an H200 (RESULTS.md)


@dataclass(frozen=True, slots=True)
class _Cut:
    """How a row is cut: `chunk` elements an access, `vectors` accesses a thread, 32 threads a simdgroup."""

    rows: int
    width: int
    chunk: int
    simdgroups: int
    vectors: int


class RMSNorm:
    """Normalises rows with one weight's width and epsilon; its kernels count themselves in `launches`.

    Args:
        executor: what runs the kernels.
        launches: counts launches by kernel name.
        epsilon: added to the mean square.
    """

    def __init__(self, executor: Executor, launches: Counter[str], epsilon: float) -> None:
        self._executor = executor
        self._launches = launches
        self._epsilon = float(epsilon)
        self._kernels: dict[tuple[int, bool], Kernel] = {}

    def __call__(self, x: mx.array, weight: mx.array) -> mx.array:
        """Normalises `x` of shape (..., width); the result has its shape and dtype.

        Args:
            x: float32, float16 or bfloat16.
            weight: shape (width,), any of these dtypes.

        Raises:
            KernelError: a dtype or shape that the kernel does not take.
        """
        cut = _cut(x, weight)
        (y,) = self._launch(cut, [Output(x.shape, x.dtype)], {"x": x, "weight": weight})
        return y

    def add(self, x: mx.array, residual: mx.array, weight: mx.array) -> tuple[mx.array, mx.array]:
        """Normalises x + residual; returns (normalised, sum), the sum rounded to the dtype of `x` first.

        Args:
            x, residual: one shape (..., width) and one dtype.
            weight: shape (width,).

        Raises:
            KernelError: a dtype or shape that the kernel does not take.
        """
        cut = _cut(x, weight)
        if residual.shape != x.shape or residual.dtype != x.dtype:
            raise KernelError(
                f"rms_norm: a residual {residual.shape} {residual.dtype} for x {x.shape} {x.dtype}"
            )
        like = Output(x.shape, x.dtype)
        y, total = self._launch(cut, [like, like], {"x": x, "residual": residual, "weight": weight})
        return y, total

    def _launch(self, cut: _Cut, outputs: list[Output], inputs: dict[str, mx.array]) -> list[mx.array]:
        threads = cut.simdgroups * LANES
        return self._kernel(cut.chunk, residual="residual" in inputs)(
            inputs,
            grid=(cut.rows * threads, 1, 1),
            threadgroup=(threads, 1, 1),
            outputs=outputs,
            template={
                "T": outputs[0].dtype,
                "WIDTH": cut.width,
                "SIMDGROUPS": cut.simdgroups,
                "VECTORS": cut.vectors,
            },
        )

    def _kernel(self, chunk: int, *, residual: bool) -> Kernel:
        if (chunk, residual) not in self._kernels:
            self._kernels[chunk, residual] = Kernel(
                "rms_norm",
                inputs=("x", *(("residual",) if residual else ()), "weight"),
                outputs=("y", "total") if residual else ("y",),
                executor=self._executor,
                launches=self._launches,
                features={"CHUNK": chunk, "RESIDUAL": int(residual), "EPSILON": self._epsilon},
            )
        return self._kernels[chunk, residual]


def _cut(x: mx.array, weight: mx.array) -> _Cut:
    if x.dtype not in _DTYPES or weight.dtype not in _DTYPES:
        raise KernelError(
            f"rms_norm: x {x.dtype} with weight {weight.dtype}; floats of 16 or 32 bits are taken"
        )
    if x.ndim < 1 or x.size == 0 or weight.shape != x.shape[-1:]:
        raise KernelError(
            f"rms_norm: x {x.shape} with weight {weight.shape}; expected (..., width) and (width,)"
        )
    width = x.shape[-1]
    if width > _MAX_WIDTH:
        raise KernelError(f"rms_norm: a width of {width}; at most {_MAX_WIDTH} is taken")
    chunk = 4 if width % 4 == 0 else 1
    chunks = width // chunk
    simdgroups = min(_MAX_SIMDGROUPS, -(-chunks // LANES))
    return _Cut(x.size // width, width, chunk, simdgroups, -(-chunks // (simdgroups * LANES)))
