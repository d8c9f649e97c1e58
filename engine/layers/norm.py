"""RMS normalisation."""

from __future__ import annotations

from functools import cached_property

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from engine.cpu.host_view import host_view
from engine.loading.weights import Weights


class RMSNorm:
    """y = w · x / sqrt(mean(x²) + eps) over the last axis (Zhang & Sennrich 2019, arXiv:1910.07467)."""

    def __init__(self, weight: mx.array, eps: float) -> None:
        """`weight`: (width,)."""
        self.weight = weight
        self.eps = eps

    @cached_property
    def on_host(self) -> NDArray[np.float32]:
        """The weight in the host's memory, on a CPU."""
        return host_view(self.weight)

    def __call__(self, x: mx.array) -> mx.array:
        return mx.fast.rms_norm(x, self.weight, self.eps)


def load_norm(weights: Weights, width: int, eps: float) -> RMSNorm:
    """The norm whose weight lies at `weights`."""
    return RMSNorm(weights.array("weight", (width,)), eps)
