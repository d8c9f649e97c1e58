"""The executors that kernels are tested on, and how a body of the tests is launched."""

import shutil
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import mlx.core as mx
import pytest

from metal.emulator import Emulator, LaunchReport, Mode
from metal.executors import CudaExecutor, EmulatedExecutor, Executor, MetalExecutor, Output, TemplateValue
from metal.kernel import Kernel

BUILD = Path(__file__).parents[2] / "build" / "emulated"
CORPUS = Path(__file__).parent / "corpus"
BODIES = Path(__file__).parent / "bodies"


@pytest.fixture(scope="session")
def kernel_cache() -> Path:
    """Compiled kernels outlive the run: they are named by a hash of all that made them."""
    if sys.platform != "linux" or shutil.which("g++") is None:
        pytest.skip("the emulator needs Linux and g++")
    return BUILD


@pytest.fixture(params=["emulated", "cuda", "metal"])
def executor(request: pytest.FixtureRequest) -> Executor:
    """Each executor that this machine has; the emulated one with every check on."""
    if request.param == "emulated":
        return EmulatedExecutor(Emulator(request.getfixturevalue("kernel_cache"), Mode.CHECKED))
    if request.param == "cuda":
        if not mx.cuda.is_available():
            pytest.skip("needs an NVIDIA GPU and MLX's CUDA build")
        return CudaExecutor()
    if not mx.metal.is_available():
        pytest.skip("needs an Apple GPU")
    return MetalExecutor()


Launched = list[mx.array]


@pytest.fixture
def launch_body() -> Callable[..., Launched]:
    """Launches a body of `bodies/` on an executor, with the arrays and template values given."""

    def launch(
        name: str,
        executor: Executor,
        inputs: Mapping[str, mx.array],
        outputs: Mapping[str, Output],
        *,
        grid: tuple[int, int, int],
        threadgroup: tuple[int, int, int],
        template: Mapping[str, TemplateValue] | None = None,
        init_value: float | None = None,
        in_place: tuple[str, ...] = (),
    ) -> Launched:
        kernel = Kernel(
            name,
            inputs=tuple(inputs),
            outputs=tuple(outputs),
            executor=executor,
            launches=Counter(),
            in_place=in_place,
            folder=BODIES,
        )
        return kernel(
            inputs,
            grid=grid,
            threadgroup=threadgroup,
            outputs=list(outputs.values()),
            template=template or {},
            init_value=init_value,
        )

    return launch


@pytest.fixture(scope="session")
def run_body(kernel_cache: Path) -> Callable[..., tuple[mx.array, LaunchReport]]:
    """Emulates a body of `corpus/`: y from x (float32), h (float16) and a small input, on 64 threads."""
    threads = 64

    def run(
        name: str, mode: Mode, x: mx.array, *, threadgroups: int = 1, seed: int = 0
    ) -> tuple[mx.array, LaunchReport]:
        reports: list[LaunchReport] = []
        emulator = Emulator(kernel_cache, mode, seed)
        kernel = Kernel(
            name,
            inputs=("x", "h", "small"),
            outputs=("y",),
            executor=EmulatedExecutor(emulator, lambda _name, report: reports.append(report)),
            launches=Counter(),
            folder=CORPUS,
        )
        (y,) = kernel(
            {"x": x, "h": mx.zeros(threads, mx.float16), "small": mx.zeros(4)},
            grid=(threads * threadgroups, 1, 1),
            threadgroup=(threads, 1, 1),
            outputs=[Output(x.shape, mx.float32)],
            template={},
        )
        return y, reports[0]

    return run
