"""The engine in safe mode: on MLX's own operations alone."""

from __future__ import annotations

from dataclasses import replace

from app.crash.crash_words import SAFE_EXECUTOR
from engine import EngineSettings


def safe_settings(settings: EngineSettings, why: str) -> EngineSettings:
    """`settings` as they are, or in safe mode: no kernels of ours, no guesses, no pages on disk."""
    if not why:
        return settings
    reason = SAFE_EXECUTOR.format(why=why)
    return replace(settings, executor="reference", executor_reason=reason, speculation=False, ssd=None)
