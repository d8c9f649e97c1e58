"""What the engine can be told before it starts."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import mlx.core as mx

from engine.errors import EngineError
from engine.kv.ssd.settings import SsdSettings
from metal.trial_runner import COMMAND

EXECUTOR_VARIABLE = "MLXR_EXECUTOR"
EXECUTORS = ("auto", "metal", "cuda", "reference", "emulated")
"""Executors. "reference" is MLX's built-in operations; "auto" takes what is fastest here; "emulated" runs the
kernels on the host, slowly, to check them."""


def default_cache() -> Path:
    """The folder for what can be made again where nobody names one."""
    return Path(tempfile.gettempdir()) / "mlxr"


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """Limits and sizes.

    Attributes:
        page_size: tokens per KV page.
        kv_bytes: most bytes the KV arena may take, within what weights leave of the machine's memory; None
            derives it from that.
        kv_pages: the same in pages; both together: the smaller.
        context: most tokens of one chat, prompt and answer together; None is as many as the model allows.
        kv_bits: bits of a stored key or value element: None as computed, or 8 or 4, quantised.
        ssd: pages spill there, and come back; None switches that off.
        speculation: guess tokens ahead where text repeats, and check several at once.
        unload_after: seconds without a request until a model leaves memory, up to the next one; None: never.
        prefill_chunk: most prompt tokens computed at once; three times as many beside answers, where a chunk
            goes through some layers at a time (not with a sliding window). Commands are heard between steps.
        executor: one of EXECUTORS; None asks the environment variable MLXR_EXECUTOR, else "auto".
        executor_reason: why it is that one, for people; "" is that it was asked for.
        cache: folder for what can be made again: compiled kernels and what was measured of them.
        trial_command: starts the process in which kernels are tried (`metal.trial`).
    """

    page_size: int = 16
    kv_bytes: int | None = None
    kv_pages: int | None = None
    context: int | None = None
    kv_bits: int | None = None
    ssd: SsdSettings | None = None
    speculation: bool = True
    unload_after: float | None = None
    prefill_chunk: int = 2048
    executor: str | None = None
    executor_reason: str = ""
    cache: Path = field(default_factory=lambda: default_cache())
    trial_command: tuple[str, ...] = COMMAND

    def __post_init__(self) -> None:
        """Raises EngineError, naming the setting, when a value makes no sense."""
        if self.page_size < 1:
            raise EngineError(f"page_size is {self.page_size}; it must be at least 1")
        if self.prefill_chunk < 1:
            raise EngineError(f"prefill_chunk is {self.prefill_chunk}; it must be at least 1")
        if self.kv_bytes is not None and self.kv_bytes < 1:
            raise EngineError(f"kv_bytes is {self.kv_bytes}; it must be at least 1")
        if self.kv_pages is not None and self.kv_pages < 1:
            raise EngineError(f"kv_pages is {self.kv_pages}; it must be at least 1")
        if self.context is not None and self.context < 1:
            raise EngineError(f"context is {self.context}; it must be at least 1")
        if self.unload_after is not None and not self.unload_after > 0:
            raise EngineError(f"unload_after is {self.unload_after}; it must be above 0, or left out")
        if self.kv_bits not in (None, 4, 8):
            raise EngineError(f"kv_bits is {self.kv_bits}; it must be 4 or 8, or left out")


@dataclass(frozen=True, slots=True)
class ExecutorChoice:
    """The executor to run.

    Attributes:
        name: one of EXECUTORS but "auto".
        reason: why, for people.
        is_forced: whether it was asked for; then its kernels run before they are measured.
    """

    name: str
    reason: str
    is_forced: bool


def choose_executor(setting: str | None) -> ExecutorChoice:
    """The executor to run.

    Raises EngineError for one that this machine does not have: a forced executor is never replaced silently.
    """
    asked = setting or os.environ.get(EXECUTOR_VARIABLE) or "auto"
    if asked not in EXECUTORS:
        raise EngineError(
            f"{EXECUTOR_VARIABLE}={asked}: there is no such executor; use {', '.join(EXECUTORS)}"
        )
    here = {"metal": mx.metal.is_available(), "cuda": mx.cuda.is_available()}
    if asked == "auto":
        found = next((name for name, is_here in here.items() if is_here), None)
        if found is None:
            return ExecutorChoice("reference", "MLX built-in operations; the kernels need a GPU", False)
        reason = "kernels of our own where they are faster than MLX's built-in operations"
        return ExecutorChoice(found, reason, False)
    if not here.get(asked, True):
        raise EngineError(
            f"{EXECUTOR_VARIABLE}={asked}: MLX finds no such GPU here; unset it or use reference"
        )
    return ExecutorChoice(asked, "asked for", True)
