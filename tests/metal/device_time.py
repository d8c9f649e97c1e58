"""Times a recorded layer on an NVIDIA GPU without MLX: `python device_time.py FOLDER [LAYERS]`.

FOLDER is `device_record`'s. Needs nvcc, CuPy and numpy. As many layers as a model has, each with weights and
pools of its own so that nothing is in the cache when its turn comes, are launched as one CUDA graph: what
is timed is the device alone. Each launch is also timed without the others, and the layer without it.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cupy as cp  # pyright: ignore[reportMissingImports]
import numpy as np

OF_A_LAYER = ("weight", "keys", "values")
_REPEATS, _WARM = 15, 3

Launch = tuple[Any, tuple[int, ...], tuple[int, ...], tuple[Any, ...]]
"""A kernel, its grid, its threads, its arrays."""


def compiled(path: Path) -> Any:
    """The kernel of a text, as MLX has it compiled."""
    cubin = path.with_suffix(".cubin")
    command = ["nvcc", "-arch=sm_90", "-std=c++17", "-cubin", "-o", str(cubin), str(path)]
    subprocess.run(command, check=True)
    return cp.RawModule(path=str(cubin)).get_function(path.stem.split("_", 1)[1])


def filled(array: dict[str, Any]) -> Any:
    """Random numbers, or the integers that were recorded."""
    if array["integers"] is not None:
        return cp.array(array["integers"], dtype=array["dtype"])
    width = array["shape"][-1] if array["name"] == "weight" and len(array["shape"]) > 1 else 1
    count = int(np.prod(array["shape"]))
    return (cp.random.standard_normal(count, dtype=cp.float32) * width**-0.5).astype(array["dtype"])


def layer(recorded: Sequence[dict[str, Any]], kernels: Sequence[Any], shared: dict[int, Any]) -> list[Launch]:
    """The launches of one layer; what layers have in common is in `shared`, by its number."""
    own: dict[int, Any] = {}
    launches: list[Launch] = []
    for launch, kernel in zip(recorded, kernels, strict=True):
        arrays: list[Any] = []
        for array in (*launch["inputs"], *launch["outputs"]):
            place = own if array["name"] in OF_A_LAYER else shared
            if array["number"] not in place:
                place[array["number"]] = filled(array)
            arrays.append(place[array["number"]])
        launches.append((kernel, tuple(launch["grid"]), tuple(launch["threadgroup"]), tuple(arrays)))
    return launches


def microseconds(launches: Sequence[Launch], stream: Any) -> float:
    """The median of their graph's runs."""
    with stream:
        for kernel, grid, threads, arrays in launches:
            kernel(grid, threads, arrays)
        stream.synchronize()
        stream.begin_capture()
        for kernel, grid, threads, arrays in launches:
            kernel(grid, threads, arrays)
        graph, times = stream.end_capture(), list[float]()
        for _ in range(_REPEATS):
            begin, end = cp.cuda.Event(), cp.cuda.Event()
            begin.record(stream)
            graph.launch(stream)
            end.record(stream)
            end.synchronize()
            times.append(cp.cuda.get_elapsed_time(begin, end) * 1e3)
    return statistics.median(times[_WARM:])


def main(folder: Path, count: int) -> None:
    """Print the whole, and each launch's share."""
    recorded = json.loads((folder / "launches.json").read_text())
    kernels = [compiled(folder / launch["file"]) for launch in recorded]
    shared: dict[int, Any] = {}
    layers = [layer(recorded, kernels, shared) for _ in range(count)]
    stream = cp.cuda.Stream(non_blocking=True)
    whole = microseconds([launch for each in layers for launch in each], stream)
    device = cp.cuda.runtime.getDeviceProperties(0)["name"].decode()
    print(f"{device}: {whole:.0f} µs, {whole / count:.1f} a layer")
    for place, launch in enumerate(recorded):
        rest = [one for each in layers for number, one in enumerate(each) if number != place]
        alone = microseconds([each[place] for each in layers], stream)
        less = (whole - microseconds(rest, stream)) / count
        print(f"  {launch['kernel']:18} alone {alone / count:5.1f} µs, the layer without it {less:5.1f} less")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 22)
