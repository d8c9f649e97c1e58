"""What loading a GGUF model costs in memory and time, beside mlx-lm loading as many bytes of its own form.

    .venv/bin/python -m tests.engine.loading.gguf.load_cost [layers pairs]

A model of Q4_K blocks is loaded whole, tokenizer and kernels included, and the weights alone of one of the
same shape in MLX's 4 bits (groups of 64: 4.5 bits a weight as well) by mlx-lm, in turns, each in a process of
its own. Files come from the page cache. Memory is MLX's, and the process's beyond what it had before.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter, process_time
from typing import cast

import mlx.core as mx
import numpy as np
from gguf import GGMLQuantizationType as Type

from tests.engine.loading.gguf.writer import every_matrix, write_gguf
from tests.fakes.random_model import random_config, random_tensors

_SHAPE = {"hidden_size": 2048, "intermediate_size": 5632, "num_attention_heads": 32, "num_key_value_heads": 4}
_BITS, _GROUP = 4, 64


@dataclass(frozen=True, slots=True)
class LoadCost:
    """One load.

    Attributes:
        seconds: from the path to weights in memory.
        busy: seconds of that on a processor, of all threads together.
        active, peak: bytes that MLX held after it, and at most during it.
        resident_peak: bytes that the process held at most, beyond those before the load.
    """

    seconds: float
    busy: float
    active: int
    peak: int
    resident_peak: int


def write_file(file: Path, layers: int) -> None:
    """A GGUF model of Q4_K blocks."""
    config = _config(layers)
    write_gguf(file, config, random_tensors(config), every_matrix(Type.Q4_K))


def write_peer(folder: Path, layers: int) -> None:
    """The same shape in MLX's form."""
    config = _config(layers)
    stored: dict[str, mx.array] = {}
    for name, tensor in random_tensors(config).items():
        if tensor.ndim == 1:
            stored[name] = mx.array(tensor.astype(np.float16))
            continue
        packed = mx.quantize(mx.array(tensor).astype(mx.float16), group_size=_GROUP, bits=_BITS)
        for kind, part in zip(("weight", "scales", "biases"), packed, strict=True):
            stored[f"{name.removesuffix('weight')}{kind}"] = part
    folder.mkdir()
    mx.save_safetensors(str(folder / "model.safetensors"), stored)
    quantization = {"group_size": _GROUP, "bits": _BITS}
    (folder / "config.json").write_text(json.dumps({**config, "quantization": quantization}))


def _config(layers: int) -> dict[str, object]:
    return {**random_config(torch_dtype="float16"), **_SHAPE, "num_hidden_layers": layers}


def load_cost(path: Path) -> LoadCost:
    """Of one load in a process of its own: ours of a file, mlx-lm's of a folder."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.engine.loading.gguf.load_cost", str(path)],
        capture_output=True,
        text=True,
        check=True,
    )
    return LoadCost(**json.loads(done.stdout.splitlines()[-1]))


def _load(path: Path) -> LoadCost:
    if path.is_file():
        from engine import EngineSettings
        from engine.loading.model import load_model

        def load() -> object:
            return load_model(path, EngineSettings(executor="emulated"), lambda done, total: None)
    else:
        from mlx_lm.utils import load_model as load_peer  # pyright: ignore[reportUnknownVariableType]

        def load() -> object:
            return cast(object, load_peer(path))

    before = _memory("VmRSS")
    mx.reset_peak_memory()
    begun, busy = perf_counter(), process_time()
    loaded = load()
    seconds, busy = perf_counter() - begun, process_time() - busy
    cost = LoadCost(seconds, busy, mx.get_active_memory(), mx.get_peak_memory(), _memory("VmHWM") - before)
    del loaded
    return cost


def _memory(field: str) -> int:
    """A figure of /proc/self/status in bytes (Linux)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(field)).split()[1]) << 10


def main(layers: int = 6, pairs: int = 5) -> None:
    """Print medians of both, and of their ratio."""
    with tempfile.TemporaryDirectory() as folder:
        ours, peer = Path(folder) / "model.gguf", Path(folder) / "peer"
        write_file(ours, layers)
        write_peer(peer, layers)
        sizes = ours.stat().st_size, sum(file.stat().st_size for file in peer.iterdir())
        runs = [(load_cost(ours), load_cost(peer)) for _ in range(pairs + 1)][1:]
    for name, size, costs in zip(("GGUF", "mlx-lm"), sizes, zip(*runs, strict=True), strict=True):
        print(f"{name:7} {size / 1e6:7.1f} MB", _words(size, costs))
    for name in ("seconds", "busy"):
        ratios = sorted(getattr(one, name) / getattr(other, name) for one, other in runs)
        print(
            f"{name} of ours by mlx-lm's: {statistics.median(ratios):.2f} ({ratios[0]:.2f}-{ratios[-1]:.2f})"
        )


def _words(size: int, costs: Sequence[LoadCost]) -> str:
    seconds, busy = (statistics.median(getattr(cost, name) for cost in costs) for name in ("seconds", "busy"))
    active, peak = (max(getattr(cost, name) for cost in costs) / size for name in ("active", "peak"))
    beyond = (max(cost.resident_peak for cost in costs) - size) / 1e6
    return (
        f"{seconds:.2f} s, busy {busy:.2f} s; MLX holds {active:.3f} of the file, at most {peak:.3f}; "
        f"the process {beyond:+.0f} MB"
    )


if __name__ == "__main__":
    if len(sys.argv) == 2 and Path(sys.argv[1]).exists():
        print(json.dumps(asdict(_load(Path(sys.argv[1])))))
    else:
        main(*map(int, sys.argv[1:]))
