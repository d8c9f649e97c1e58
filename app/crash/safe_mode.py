"""Safe mode: the engine on MLX's own operations alone, and when that is chosen."""

from __future__ import annotations

from dataclasses import replace

from app.crash import crash_words as words
from engine import EngineSettings

CRASHES = 2
"""Runs in a row that crashed soon after their start, after which the next one is careful."""

CALM_SECONDS = 180.0
"""That a run lasts until it is none of them."""


def why_safe(asked: bool, is_key_held: bool, early_crashes: int) -> str:
    """Why this run is to be in safe mode, for the middle of a sentence; "" where it is not."""
    if asked:
        return words.SAFE_ASKED
    if is_key_held:
        return words.SAFE_KEY
    if early_crashes >= CRASHES:
        return words.SAFE_CRASHES.format(count=early_crashes)
    return ""


def safe_settings(settings: EngineSettings, why: str) -> EngineSettings:
    """`settings` as they are, or in safe mode: no kernels of ours, no guesses, no pages on disk."""
    if not why:
        return settings
    reason = words.SAFE_EXECUTOR.format(why=why)
    return replace(settings, executor="reference", executor_reason=reason, speculation=False, ssd=None)
