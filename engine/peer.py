"""mlx-lm run on the same tokens as the engine, to measure side by side: plain numbers in, plain numbers out.

mlx-lm is a development dependency; it is imported when a Peer is made, and only `mlxr bench` makes one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import mlx.core as mx

from engine.errors import EngineError

_DTYPES = {"float32": mx.float32, "float16": mx.float16, "bfloat16": mx.bfloat16}


@dataclass(frozen=True, slots=True)
class PeerRun:
    """One completion.

    Attributes:
        tokens: the generated ids.
        ttft_s: seconds from the call to the first token.
        decode_tps: tokens per second after the first.
    """

    tokens: tuple[int, ...]
    ttft_s: float
    decode_tps: float


class Peer:
    """A model in mlx-lm.

    Attributes:
        version: mlx-lm's.

    Belongs to the thread that makes it: MLX's streams do.
    """

    def __init__(self, path: Path, dtype: str) -> None:
        """Load the model folder `path` and compute in `dtype` (a name such as ModelInfo.dtype).

        Raises EngineError when mlx-lm is missing or refuses the model.
        """
        try:
            from mlx_lm import __version__
            from mlx_lm.generate import generate_step
            from mlx_lm.utils import load_model  # pyright: ignore[reportUnknownVariableType]
        except ImportError as error:
            raise EngineError(f"mlx-lm is not installed ({error}); `make setup` installs it") from None
        self.version: str = __version__
        try:
            self._model: Any = load_model(path)[0]
        except Exception as error:
            raise EngineError(f"mlx-lm does not load {path}: {error}") from error
        self._model.set_dtype(_DTYPES[dtype])
        self._steps = cast("Callable[..., Iterator[tuple[Any, mx.array]]]", generate_step)

    def run(self, prompt: Sequence[int], count: int) -> PeerRun:
        """Continue `prompt` greedily by exactly `count` >= 2 tokens, end-of-text tokens or not."""
        began = time.perf_counter()
        first = began
        tokens: list[int] = []
        for token, _ in self._steps(mx.array(list(prompt)), self._model, max_tokens=count):
            tokens.append(int(token))
            if len(tokens) == 1:
                first = time.perf_counter()
        decode_s = time.perf_counter() - first
        return PeerRun(tuple(tokens), first - began, (count - 1) / decode_s)
