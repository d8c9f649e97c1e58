"""What the engine can be told before it starts."""

from __future__ import annotations

import os
from dataclasses import dataclass

from engine.errors import EngineError

EXECUTOR_VARIABLE = "MLXR_EXECUTOR"
EXECUTORS = ("auto", "reference")
"""Executors of this build. "reference" is MLX's built-in operations; "auto" chooses the fastest here."""


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """Limits and sizes.

    Attributes:
        page_size: tokens per KV page.
        kv_bytes: most bytes the KV arena may take; None derives it from the machine's memory.
        prefill_chunk: most prompt tokens computed at once; commands are heard between chunks.
        executor: one of EXECUTORS; None asks the environment variable MLXR_EXECUTOR, else "auto".
    """

    page_size: int = 16
    kv_bytes: int | None = None
    prefill_chunk: int = 512
    executor: str | None = None

    def __post_init__(self) -> None:
        """Raises EngineError, naming the setting, when a value makes no sense."""
        if self.page_size < 1:
            raise EngineError(f"page_size is {self.page_size}; it must be at least 1")
        if self.prefill_chunk < 1:
            raise EngineError(f"prefill_chunk is {self.prefill_chunk}; it must be at least 1")
        if self.kv_bytes is not None and self.kv_bytes < 1:
            raise EngineError(f"kv_bytes is {self.kv_bytes}; it must be at least 1")


def choose_executor(setting: str | None) -> tuple[str, str]:
    """The executor to run and the reason, for people.

    Raises EngineError for one that this build does not have: a forced executor is never replaced silently.
    """
    asked = setting or os.environ.get(EXECUTOR_VARIABLE) or "auto"
    if asked not in EXECUTORS:
        raise EngineError(
            f"{EXECUTOR_VARIABLE}={asked}: there is no such executor here; use {' or '.join(EXECUTORS)}"
        )
    if asked == "reference":
        return "reference", "asked for"
    return "reference", "MLX built-in operations; this version has no kernels of its own yet"
