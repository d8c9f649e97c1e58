"""Rotary position embedding and its scalings: linear, llama3 and yarn."""

from __future__ import annotations

import math
from collections.abc import Sequence

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from engine.loading.config import RopeConfig

_SMALLEST_TABLE = 1024

Angles = tuple[NDArray[np.float32], NDArray[np.float32]]
"""Cosines and sines of positions, (positions, dims/2) each."""


class Rope:
    """Rotates pairs (i, i + d/2) of a head by position · frequency_i (Su et al. 2021, arXiv:2104.09864)."""

    def __init__(self, config: RopeConfig, head_dim: int) -> None:
        """`head_dim` is the even number of dimensions that are rotated."""
        self._table = mx.zeros((0, head_dim))
        periods = rope_periods(config, head_dim)
        self._dims = head_dim
        self._periods = mx.array(periods, dtype=mx.float32)
        self._frequencies = mx.array([1 / period for period in periods], dtype=mx.float32)
        self._magnitude = attention_magnitude(config)
        mx.eval(self._periods, self._frequencies)
        # As MLX's own rotation has them: the same angles, bit for bit.
        self._host_frequencies = np.reciprocal(np.array(periods, np.float32))

    def __call__(self, x: mx.array, start: int | mx.array) -> mx.array:
        """x (n, heads, tokens, head_dim); `start`: the first token's position, or int32 (n,) of each."""
        if self._magnitude != 1.0:
            x = x * self._magnitude
        return mx.fast.rope(
            x, self._dims, traditional=False, base=None, scale=1.0, offset=start, freqs=self._periods
        )

    def angles(self, positions: Sequence[int]) -> Angles:
        """On the host, times the magnitude."""
        angles = np.array(positions, np.float32)[:, None] * self._host_frequencies
        magnitude = np.float32(self._magnitude)
        return magnitude * np.cos(angles), magnitude * np.sin(angles)

    def table(self, positions: int) -> mx.array:
        """The angles of positions 0 … at least positions-1, for kernels: float32 (rows, dims).

        Each row holds dims/2 cosines, then as many sines, times the magnitude. It grows by doubling.
        """
        if positions > self._table.shape[0]:
            rows = max(_SMALLEST_TABLE, 1 << (positions - 1).bit_length())
            turns = mx.arange(rows, dtype=mx.float32)[:, None] * self._frequencies
            self._table = self._magnitude * mx.concatenate([mx.cos(turns), mx.sin(turns)], axis=1)
            mx.eval(self._table)
        return self._table


def rope_periods(config: RopeConfig, dims: int) -> list[float]:
    """The period over 2π of each of the dims/2 pairs (the inverse of Hugging Face's `inv_freq`), scaled."""
    periods = _scaled_periods(config, dims)
    if config.divisors:
        return [period * divisor for period, divisor in zip(periods, config.divisors, strict=True)]
    return periods


def _scaled_periods(config: RopeConfig, dims: int) -> list[float]:
    plain = [config.theta ** (2 * pair / dims) for pair in range(dims // 2)]
    if config.kind == "linear":
        return [period * config.factor for period in plain]
    if config.kind == "llama3":
        return [_llama3_period(config, period) for period in plain]
    if config.kind == "yarn":
        return _yarn_periods(config, plain, dims)
    return plain


def attention_magnitude(config: RopeConfig) -> float:
    """The factor on rotated queries and keys: yarn's 0.1 ln(factor) + 1 (arXiv:2309.00071, §3.4), else 1."""
    if config.kind != "yarn":
        return 1.0
    if config.attention_factor is not None:
        return config.attention_factor
    if config.mscale and config.mscale_all_dim:
        return _yarn_mscale(config.factor, config.mscale) / _yarn_mscale(config.factor, config.mscale_all_dim)
    return _yarn_mscale(config.factor, 1.0)


def _yarn_mscale(factor: float, mscale: float) -> float:
    return 1.0 if factor <= 1 else 0.1 * mscale * math.log(factor) + 1.0


def _llama3_period(config: RopeConfig, period: float) -> float:
    # Long wavelengths are stretched by `factor`, short ones kept, those between interpolated
    # (as the Llama 3.1 release describes it; parameters low_freq_factor and high_freq_factor).
    wavelength = 2 * math.pi * period
    if wavelength < config.original_context / config.high_freq_factor:
        return period
    if wavelength > config.original_context / config.low_freq_factor:
        return period * config.factor
    smooth = (config.original_context / wavelength - config.low_freq_factor) / (
        config.high_freq_factor - config.low_freq_factor
    )
    return period / ((1 - smooth) / config.factor + smooth)


def _yarn_periods(config: RopeConfig, plain: list[float], dims: int) -> list[float]:
    # "NTK by parts" (arXiv:2309.00071, §3.2): pairs turning more than beta_fast times in the original context
    # keep their frequency, those under beta_slow turns are interpolated, a linear ramp lies between.
    def pair_turning(turns: float) -> float:
        return dims * math.log(config.original_context / (turns * 2 * math.pi)) / (2 * math.log(config.theta))

    low, high = pair_turning(config.beta_fast), pair_turning(config.beta_slow)
    if config.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dims - 1)
    if low == high:
        high += 0.001
    periods: list[float] = []
    for pair, period in enumerate(plain):
        stretched = min(max((pair - low) / (high - low), 0.0), 1.0)
        periods.append(1.0 / (stretched / (config.factor * period) + (1 - stretched) / period))
    return periods
