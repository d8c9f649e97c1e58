"""Launches pick.metal: the likeliest token of each row of logits, and whether the row is a distribution."""

from __future__ import annotations

from collections import Counter

import mlx.core as mx

from metal.errors import KernelError
from metal.executors import Executor, Output
from metal.kernel import LANES, Kernel

_SIMDGROUPS = 32


class Pick:
    """Greedy choice over a vocabulary, in one launch."""

    def __init__(self, executor: Executor, launches: Counter[str]) -> None:
        self._kernels = {
            width: Kernel(
                "pick",
                inputs=("logits",),
                outputs=("token", "mass"),
                executor=executor,
                launches=launches,
                features={"WIDTH": width},
            )
            for width in (1, 4)
        }

    def __call__(self, logits: mx.array) -> tuple[mx.array, mx.array]:
        """Returns tokens, uint32 (rows,), the lowest id among equals, and log Σ exp(logits), float32 (rows,).

        Args:
            logits: float32 (rows, vocab).

        Raises:
            KernelError: another shape or dtype.
        """
        if logits.ndim != 2 or logits.size < LANES or logits.dtype != mx.float32:
            raise KernelError(
                f"pick: logits {logits.shape} {logits.dtype}; (rows, vocab) of float32 is taken"
            )
        rows, vocab = logits.shape
        token, mass = self._kernels[4 if vocab % 4 == 0 else 1](
            {"logits": logits},
            grid=(rows * _SIMDGROUPS * LANES, 1, 1),
            threadgroup=(_SIMDGROUPS * LANES, 1, 1),
            outputs=[Output((rows,), mx.uint32), Output((rows,), mx.float32)],
            template={"N": vocab, "SIMDGROUPS": _SIMDGROUPS},
        )
        return token, mass
