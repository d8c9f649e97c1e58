"""What this machine is, as far as the engine depends on it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib.metadata import version

import mlx.core as mx

from engine import blas
from engine.settings import choose_executor

KEPT = 8
"""One part of so many of the memory that models may share is what MLX may keep for reuse.

Chunks of 4,096 tokens of TinyLlama behind 12,000 leave arrays of up to 8 GB on an H100, where MLX computes
attention; with a sixteenth prompts alone were 5 % slower there, with an eighth and a fourth not to be told
apart (2026-11-26).
"""


@dataclass(frozen=True, slots=True)
class MachineReport:
    """The machine in the engine's eyes.

    Attributes:
        device: "Metal", "CUDA" or "CPU": where MLX computes.
        device_name: the chip's name as the device reports it, or "".
        mlx_version: of the imported mlx.
        memory_bytes: memory that weights and pages share.
        openblas: the OpenBLAS library that was preloaded, or None.
        executor: what runs attention.
        executor_reason: why, in words.
    """

    device: str
    device_name: str
    mlx_version: str
    memory_bytes: int
    openblas: str | None
    executor: str
    executor_reason: str


def device_kind() -> str:
    """ "Metal", "CUDA" or "CPU"."""
    if mx.default_device() == mx.Device(mx.cpu, 0):
        return "CPU"
    return "Metal" if mx.metal.is_available() else "CUDA"


def device_name() -> str:
    """The chip's name as MLX's device reports it, or ""."""
    return str(mx.device_info().get("device_name", ""))


def memory_bytes() -> int:
    """Memory that models may share.

    On a GPU as much as its driver recommends to use at once (on Apple silicon about three quarters of the
    machine's), or all it has where it recommends nothing; else the machine's.
    """
    if device_kind() != "CPU":
        for name in ("max_recommended_working_set_size", "memory_size"):
            size = mx.device_info().get(name)
            if isinstance(size, int) and size > 0:
                return size
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def limit_kept_memory() -> None:
    """Of what arrays leave MLX keeps at most an eighth of `memory_bytes` for the next ones, from now on.

    By itself it keeps on a GPU what all of it leaves free: in minutes of prompts without a rest 54 of an
    H100's 80 GB, and of a Mac's memory what other programs need.
    """
    if device_kind() != "CPU":  # there it keeps 32 MB
        mx.set_cache_limit(memory_bytes() // KEPT)


def compute_dtype(stored: str | None) -> mx.Dtype:
    """The dtype to compute in for weights stored as `stored`: f32 on a CPU, where half precision is slow."""
    if device_kind() == "CPU":
        return mx.float32
    return {"float16": mx.float16, "float32": mx.float32}.get(stored or "", mx.bfloat16)


def machine_report(executor: str | None = None) -> MachineReport:
    """Look at this machine. Raises EngineError when a forced executor does not exist."""
    choice = choose_executor(executor)
    return MachineReport(
        device=device_kind(),
        device_name=device_name(),
        mlx_version=version("mlx"),
        memory_bytes=memory_bytes(),
        openblas=blas.LOADED,
        executor=choice.name,
        executor_reason=choice.reason,
    )
