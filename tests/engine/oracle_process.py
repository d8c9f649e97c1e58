"""What mlx-lm says of an answer, in a process of its own that computes on the CPU alone.

In the test's process that would be with mx.stream(mx.cpu), which is of all threads: until it ends an engine's
thread beside it computes on the CPU too, in pages that the device is at (docs/measured/pitfalls.md). And
BLAS's threads would be at work when an engine forks.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

KV_GROUP = 32
"""Elements of a head that share a scale where keys and values are quantised."""

_MODELS = 8
"""That stay loaded."""


@dataclass(frozen=True, slots=True)
class Said:
    """Of each token of an answer, float32 (tokens,), before it was drawn.

    Attributes:
        given: its logit; `largest`: the likeliest one's.
        magnitude: the largest of all, whatever their signs.
        mass: the logarithm of what all exponentials add up to.
    """

    given: NDArray[np.float32]
    largest: NDArray[np.float32]
    magnitude: NDArray[np.float32]
    mass: NDArray[np.float32]


def logits(folder: Path, bits: int | None, group: int, tokens: Sequence[int]) -> NDArray[np.float32]:
    """(tokens, vocab) of one forward pass from nothing, with the model in `folder` in float32.

    `bits` of keys and values, which mlx-lm quantises in groups of `group`; None as computed.
    """
    return _process().submit(_logits, folder, bits, group, tuple(tokens)).result()


def say(folder: Path, bits: int | None, prompt: Sequence[int], answer: Sequence[int]) -> Said:
    """The same over a prompt and its answer, in groups of KV_GROUP: what matters of it."""
    return _process().submit(_say, folder, bits, tuple(prompt), tuple(answer)).result()


@cache
def _process() -> ProcessPoolExecutor:
    """Begun by the first who asks; it ends with the tests'."""
    return ProcessPoolExecutor(1, get_context("spawn"), _begin)


def _begin() -> None:
    import mlx.core as mx

    mx.set_default_device(mx.Device(mx.cpu))


@lru_cache(_MODELS)
def _loaded(folder: Path) -> Any:
    import mlx.core as mx
    from mlx_lm.utils import load_model

    model = cast(Any, load_model(folder)[0])
    model.set_dtype(mx.float32)
    return model


def _states(folder: Path, bits: int | None, group: int, tokens: tuple[int, ...]) -> Any:
    import mlx.core as mx
    from mlx_lm.models.cache import QuantizedKVCache

    model = _loaded(folder)
    caches = None if bits is None else [QuantizedKVCache(group, bits) for _ in model.layers]
    return model(mx.array(tokens)[None], cache=caches)[0].astype(mx.float32)


def _logits(folder: Path, bits: int | None, group: int, tokens: tuple[int, ...]) -> NDArray[np.float32]:
    return _host(_states(folder, bits, group, tokens))


def _say(folder: Path, bits: int | None, prompt: tuple[int, ...], answer: tuple[int, ...]) -> Said:
    import mlx.core as mx

    states = _states(folder, bits, KV_GROUP, (*prompt, *answer))[len(prompt) - 1 : -1]
    given = mx.take_along_axis(states, mx.array(answer)[:, None], axis=-1)[:, 0]
    of = (given, states.max(axis=-1), mx.abs(states).max(axis=-1), mx.logsumexp(states, axis=-1))
    return Said(*map(_host, of))


def _host(array: Any) -> NDArray[np.float32]:
    """MLX's array as NumPy's."""
    return np.array(array, np.float32)
