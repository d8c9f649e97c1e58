"""Launches unpack.metal: a chunk's numbers for its layers, and the angles of its positions."""

from __future__ import annotations

from collections import Counter

import mlx.core as mx

from metal.errors import KernelError
from metal.executors import Executor, Output
from metal.kernel import Kernel
from metal.pools import SMALLEST

_THREADS = 256


class Unpack:
    """Brings what the host wrote to the device, and looks angles up by it, in one launch."""

    def __init__(self, executor: Executor, launches: Counter[str]) -> None:
        self._kernel = Kernel(
            "unpack",
            inputs=("written", "angles"),
            outputs=("numbers", "own"),
            executor=executor,
            launches=launches,
        )

    def __call__(self, written: mx.array, angles: mx.array, rows: int) -> tuple[mx.array, mx.array]:
        """The same numbers, int32 (count,), and of each row the angles, float32 (rows, dims).

        Args:
            written: int32 (count,): count, rows, the place of the first row's position, and anything; the
                rows' positions stand together. That they are within `angles` is not checked.
            angles: float32 (positions, dims).
            rows: as in `written`.

        Raises:
            KernelError: another shape or dtype.
        """
        fits = written.ndim == 1 and written.size >= SMALLEST and angles.ndim == 2 and angles.size >= SMALLEST
        if not fits or rows < 1 or (written.dtype, angles.dtype) != (mx.int32, mx.float32):
            given = f"{written.shape} {written.dtype}, {angles.shape} {angles.dtype} and {rows} rows"
            raise KernelError(
                f"unpack: {given}; int32 (count,), float32 (positions, dims) and a row are taken"
            )
        dims = angles.shape[1]
        threads = -(-max(written.size, rows * dims) // _THREADS) * _THREADS
        numbers, own = self._kernel(
            {"written": written, "angles": angles},
            grid=(threads, 1, 1),
            threadgroup=(_THREADS, 1, 1),
            outputs=[Output(written.shape, mx.int32), Output((rows, dims), mx.float32)],
            template={"DIMS": dims},
        )
        return numbers, own
