"""The random keys of a request's draws, one for each draw by its number."""

from __future__ import annotations

import secrets

import mlx.core as mx

_GAMMA = 0x9E3779B97F4A7C15  # the golden ratio, as SplitMix64 counts


class Keys:
    """The random key of each of a request's draws, by the draw's number.

    Draw n has the same key whatever was drawn before it, so that an answer with a seed is the same when draws
    are made several at a time, or made again. Keys are made on the host, by SplitMix64
    (https://doi.org/10.1145/2714064.2660195).
    """

    def __init__(self, seed: int | None) -> None:
        self._origin = secrets.randbits(64) if seed is None else _mix(seed % 2**64)
        self._drawn = 0

    @property
    def drawn(self) -> int:
        """How many draws were made: the number of the next one."""
        return self._drawn

    def take(self, count: int) -> mx.array:
        """The keys of the next `count` draws, (count, 2) uint32."""
        return mx.array([divmod(bits, 2**32) for bits in self._next(count)], dtype=mx.uint32)

    def chances(self, count: int) -> list[float]:
        """Of the next `count` draws, each in [0, 1), equally likely."""
        return [(bits >> 11) * 2.0**-53 for bits in self._next(count)]

    def rewind(self, drawn: int) -> None:
        """The next draw is number `drawn` again. Raises ValueError for one that is still to come."""
        if not 0 <= drawn <= self._drawn:
            raise ValueError(f"{self._drawn} draws were made; draw {drawn} cannot be the next again")
        self._drawn = drawn

    def _next(self, count: int) -> list[int]:
        """64 random bits for each of the next `count` draws."""
        numbers = range(self._drawn + 1, self._drawn + count + 1)
        self._drawn += count
        return [_mix(self._origin + n * _GAMMA) for n in numbers]


def categorical_rows(scores: mx.array, keys: mx.array) -> mx.array:
    """One draw from each row of `scores` (rows, n) with its own key, keys (rows, 2); (rows,) uint32."""
    return mx.vmap(_categorical)(scores, keys)


def _categorical(scores: mx.array, key: mx.array) -> mx.array:
    return mx.random.categorical(scores, key=key)


def _mix(value: int) -> int:
    """SplitMix64's scrambling of a 64-bit number."""
    value %= 2**64
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB % 2**64
    return value ^ (value >> 31)
