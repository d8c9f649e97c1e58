"""mlx-lm run on the same tokens as the engine, to measure side by side: plain numbers in, plain numbers out.

mlx-lm is a development dependency; it is imported when a Peer is made, and only `mlxr bench` makes one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import mlx.core as mx

from engine.bench.runner_bench import BatchRun
from engine.errors import EngineError

_DTYPES = {"float32": mx.float32, "float16": mx.float16, "bfloat16": mx.bfloat16}
_Steps = Callable[..., Iterator[tuple[Any, mx.array]]]


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
            from mlx_lm.generate import BatchGenerator, generate_step, generation_stream, wired_limit
            from mlx_lm.models.cache import make_prompt_cache
            from mlx_lm.utils import load_model  # pyright: ignore[reportUnknownVariableType]
        except ImportError as error:
            raise EngineError(
                f"mlx-lm is not installed ({error}); a checkout has it after `make setup`"
            ) from None
        self.version: str = __version__
        try:
            self._model: Any = load_model(path)[0]
        except Exception as error:
            raise EngineError(f"mlx-lm does not load {path}: {error}") from error
        self._model.set_dtype(_DTYPES[dtype])
        self._steps = cast(_Steps, generate_step)
        self._batches = cast("Callable[..., Any]", BatchGenerator)
        self._new_cache = cast("Callable[[Any], list[Any]]", make_prompt_cache)
        self._stream = generation_stream
        self._wired = cast("Callable[..., AbstractContextManager[None]]", wired_limit)

    def run(self, prompt: Sequence[int], count: int) -> PeerRun:
        """Continue `prompt` greedily by exactly `count` >= 2 tokens, end-of-text tokens or not."""
        tokens: list[int] = []
        with self._alone():
            began = first = time.perf_counter()
            for token, _ in self._steps(mx.array(list(prompt)), self._model, max_tokens=count):
                tokens.append(int(token))
                if len(tokens) == 1:
                    first = time.perf_counter()
            ended = time.perf_counter()
        return PeerRun(tuple(tokens), first - began, (count - 1) / (ended - first))

    def run_batch(self, prompts: Sequence[Sequence[int]], count: int) -> BatchRun:
        """Continue all `prompts` at once by exactly `count` >= 2 tokens each, with mlx-lm's batch generator.

        Raises EngineError when it did not decode them as one batch from the first token to the last.
        """
        size = len(prompts)
        made = self._batches(
            self._model, max_tokens=count, completion_batch_size=size, prefill_batch_size=size
        )
        rows: dict[int, list[int]] = {uid: [] for uid in made.insert([list(prompt) for prompt in prompts])}
        moments: list[float] = []
        while responses := made.next_generated():
            moments.append(time.perf_counter())
            for response in responses:
                rows[response.uid].append(response.token)
        made.close()
        mx.synchronize(self._stream)
        if len(moments) != count:
            raise EngineError(f"mlx-lm took {len(moments)} steps for {count} tokens of {size} sequences")
        speed = size * (count - 1) / (moments[-1] - moments[0])
        return BatchRun(tuple(tuple(row) for row in rows.values()), speed)

    def first_token_after(self, cached: Sequence[int], new: Sequence[int]) -> float:
        """Seconds to the first token of a prompt whose beginning, `cached`, is in a prompt cache already."""
        cache = self._new_cache(self._model)
        self._model(mx.array([list(cached)]), cache=cache)
        mx.eval([layer.state for layer in cache])
        with self._alone():
            began = time.perf_counter()
            next(iter(self._steps(mx.array(list(new)), self._model, max_tokens=1, prompt_cache=cache)))
            return time.perf_counter() - began

    @contextmanager
    def _alone(self) -> Generator[None]:
        """Memory wired as mlx-lm does it for its users; ends with the step that it began ahead for nobody."""
        with self._wired(self._model, [self._stream]):
            yield
            mx.synchronize(self._stream)
