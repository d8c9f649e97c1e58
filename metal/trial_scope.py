"""For what a verdict on a kernel holds: this machine, this MLX, this executor."""

from __future__ import annotations

import platform
import sys
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Literal, get_args

import mlx.core as mx

from metal.emulator import Emulator, Mode
from metal.errors import KernelError
from metal.executors import CudaExecutor, EmulatedExecutor, Executor, MetalExecutor

ExecutorName = Literal["metal", "cuda", "emulated"]
EXECUTOR_NAMES: tuple[str, ...] = get_args(ExecutorName)

_NVIDIA_DRIVER = Path("/proc/driver/nvidia/version")


@dataclass(frozen=True, slots=True)
class Scope:
    """A verdict holds while all of these stay as they are.

    Attributes:
        machine: the device, its memory, and the system or driver that compiles for it.
        mlx: MLX's version.
        executor: what runs kernels.
    """

    machine: str
    mlx: str
    executor: ExecutorName


def this_scope(executor: ExecutorName) -> Scope:
    """The scope of this process."""
    return Scope(_machine(executor), version("mlx"), executor)


def open_executor(name: ExecutorName, cache_folder: Path, mode: Mode = Mode.CHECKED) -> Executor:
    """The executor of that name.

    Args:
        cache_folder: where the emulator keeps what it compiles.
        mode: what the emulator watches for.

    Raises:
        KernelError: this machine does not have it.
    """
    if name == "metal":
        if not mx.metal.is_available():
            raise KernelError("there is no Apple GPU here to run Metal kernels")
        return MetalExecutor()
    if name == "cuda":
        if not mx.cuda.is_available():
            raise KernelError("there is no NVIDIA GPU here, or MLX was not built for it")
        return CudaExecutor()
    return EmulatedExecutor(Emulator(cache_folder, mode))


def gpu_executor() -> ExecutorName | None:
    """The executor of this machine's GPU; None without one that MLX uses."""
    if mx.default_device() == mx.Device(mx.cpu, 0):
        return None
    return "metal" if mx.metal.is_available() else "cuda"


def _machine(executor: ExecutorName) -> str:
    if executor == "emulated":
        return f"{platform.machine()}, {platform.system()} {platform.release()}"
    info = mx.device_info()
    size = info.get("memory_size")
    memory = f", {size / 2**30:.0f} GiB" if isinstance(size, int) else ""
    return f"{info.get('device_name', 'GPU')}{memory}, {_system()}"


def _system() -> str:
    """Apple's compiler comes with macOS, NVIDIA's code generator with the driver."""
    if sys.platform == "darwin":
        return f"macOS {platform.mac_ver()[0]}"
    try:
        words = _NVIDIA_DRIVER.read_text().split("\n", 1)[0].split()
    except OSError:
        return f"Linux {platform.release()}"
    return "NVIDIA driver " + next((word for word in words if word[0].isdigit()), "unknown")
