"""An arena's arrays of a layer in a new size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext

import mlx.core as mx

from engine.host_view import host_view
from engine.kv.pool_spans import bits
from engine.machine import device_kind

_BESIDE = mx.new_thread_local_stream(mx.cpu)
"""A thread of MLX's on a CPU, beside the one that computes."""


def grown(olds: Sequence[mx.array], build: Sequence[Callable[[], mx.array]]) -> list[mx.array]:
    """What each of `build` makes, larger ones of zeros, with what `olds` (kv_heads, slots, width) hold."""
    if device_kind() == "CPU":
        return _grown_on_host(olds, build)
    pools = [make() for make in build]
    for old, pool in zip(olds, pools, strict=True):
        pool[:, : old.shape[1]] = old
    mx.eval(pools)
    return pools


def _grown_on_host(olds: Sequence[mx.array], build: Sequence[Callable[[], mx.array]]) -> list[mx.array]:
    """The same, built by two threads: memory that the system gives for the first time takes long."""
    pools: list[mx.array] = []
    for index, make in enumerate(build):
        with mx.stream(_BESIDE) if index % 2 else nullcontext():
            pools.append(make())
    mx.eval(pools)
    for old, pool in zip(olds, pools, strict=True):
        host_view(bits(pool))[:, : old.shape[1]] = host_view(bits(old))
    return pools
