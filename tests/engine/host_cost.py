"""What the host does for a short chunk, where launches compute nothing: `python -m tests.engine.host_cost`.

A model of 22 layers goes the way that a GPU's goes, each launch in the place of one; only the device, and
what MLX's back-end does to launch something there, are not in it. So a change of the host's part can be
measured on a machine without a GPU, in turns with the code before it: run both from their folders.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

import mlx.core as mx

from engine.kernels.choice import KernelChoice
from engine.kernels.kernels import Kernels
from engine.kv.page_table import PageTable
from engine.loading.model import LoadedModel, load_model
from engine.runner import Runner
from engine.settings import EngineSettings
from engine.steps.parts import Part
from metal.executors import Launcher, Request, Signature
from metal.source import KernelSource
from metal.trial_case import CaseSpec
from tests.fakes.random_model import write_random_model

TOKENS = 28
"""Of the chunk."""
_SMALL = {
    "num_hidden_layers": 22,
    "head_dim": 64,
    "num_key_value_heads": 2,
    "intermediate_size": 512,
    "max_position_embeddings": 16384,
}


class Nowhere:
    """An executor whose launches hang on what they are given, as a GPU's do, and compute nothing."""

    def __init__(self) -> None:
        self._made: dict[tuple[tuple[int, ...], mx.Dtype], mx.array] = {}

    def build(self, source: KernelSource, signature: Signature) -> Launcher:
        """See `Executor.build`."""

        def launch(request: Request) -> list[mx.array]:
            outputs = [self._array(output.shape, output.dtype) for output in request.outputs]
            return list(mx.depends(outputs, list(request.inputs)))

        return launch

    def _array(self, shape: tuple[int, ...], dtype: mx.Dtype) -> mx.array:
        if (shape, dtype) not in self._made:
            self._made[shape, dtype] = mx.zeros(shape, dtype)
            mx.eval(self._made[shape, dtype])
        return self._made[shape, dtype]


class OurKernels(KernelChoice):
    """Chooses a kernel of ours wherever there is one."""

    def proven(self, spec: CaseSpec) -> str | None:
        """See KernelChoice."""
        return self.kernel(spec)


def on_a_device_that_is_not_there(folder: Path) -> LoadedModel:
    """A model of half precision whose files, and the engine's, go to `folder`."""
    settings = EngineSettings(executor="emulated", cache=folder / "cache", kv_pages=1024)
    with patch("engine.loading.model.compute_dtype", lambda stored: mx.float16):
        model = load_model(write_random_model(folder / "model", **_SMALL), settings, lambda done, total: None)
    assert model.kernels is not None
    selection = model.kernels.choice.selection
    model.kernels = Kernels(OurKernels("emulated", Nowhere(), selection, is_forced=True), model.decoder)
    return model


def measure(folder: Path, behind: int, rounds: int, *, is_cold: bool) -> tuple[int, list[float]]:
    """Launches of a chunk behind so many tokens, and seconds until its first token was read, each time.

    `is_cold`: something else was computed before each, so that little of it is in the processor's caches.
    """
    model = on_a_device_that_is_not_there(folder)
    assert model.kernels is not None
    runner, table, took = Runner(model), PageTable(), list[float]()
    model.memory.grow(table, behind + TOKENS)
    ids = tuple(5 + 79 * token % 300 for token in range(TOKENS))
    before = model.kernels.launches.total()
    launched = 0
    for number in range(rounds + 1):  # the first traces it
        table.length = behind
        time.sleep(0.02)
        if is_cold:
            square = mx.random.normal((1200, 1200))
            mx.eval(square @ square)
        began = time.perf_counter()
        tokens, masses = runner.pick(runner.fill(Part(table, TOKENS), ids, may_trace=True))
        mx.async_eval(tokens, masses, *runner.results)
        tokens.tolist()
        if number:
            took.append(time.perf_counter() - began)
        else:
            launched = model.kernels.launches.total() - before
    return launched, took


def main(arguments: Sequence[str] | None = None) -> None:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m tests.engine.host_cost")
    parser.add_argument("--behind", type=int, default=4091, help="tokens before the chunk")
    parser.add_argument("--rounds", type=int, default=120)
    parser.add_argument("--cold", action="store_true", help="with other work before each round")
    args = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        launched, took = measure(Path(folder), args.behind, args.rounds, is_cold=args.cold)
    median, least = 1e6 * statistics.median(took), 1e6 * min(took)
    print(f"{TOKENS} tokens behind {args.behind}, {launched} launches: {median:.0f} µs (least {least:.0f})")


if __name__ == "__main__":
    main()
