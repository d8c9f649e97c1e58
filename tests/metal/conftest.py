"""Where kernels are built for tests, and how a body of the corpus is launched."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import mlx.core as mx
import pytest
from metal.emulator import Emulator, LaunchReport, Mode
from metal.executors import EmulatedExecutor, Output
from metal.kernel import Kernel

BUILD = Path(__file__).parents[2] / "build" / "kernels"
CORPUS = Path(__file__).parent / "corpus"
THREADS = 64


@pytest.fixture(scope="session")
def kernel_cache() -> Path:
    """Compiled kernels outlive the run: they are named by a hash of all that made them."""
    return BUILD


@pytest.fixture(scope="session")
def run_body(kernel_cache: Path) -> Callable[..., tuple[mx.array, LaunchReport]]:
    """Launches a body that makes y (float32) of x (float32), h (float16) and a small w, on 64 threads a group."""

    def run(name: str, mode: Mode, x: mx.array, *, threadgroups: int = 1, seed: int = 0, folder: Path = CORPUS):
        reports: list[LaunchReport] = []
        executor = EmulatedExecutor(
            Emulator(kernel_cache, mode, seed), lambda _name, report: reports.append(report)
        )
        kernel = Kernel(
            name,
            inputs=("x", "h", "small"),
            outputs=("y",),
            executor=executor,
            launches=Counter(),
            folder=folder,
        )
        (y,) = kernel(
            x=x,
            h=mx.zeros(THREADS, mx.float16),
            small=mx.zeros(4),
            grid=(THREADS * threadgroups, 1, 1),
            threadgroup=(THREADS, 1, 1),
            outputs=[Output(x.shape, mx.float32)],
            template={},
        )
        return y, reports[0]

    return run
