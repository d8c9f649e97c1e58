"""When a run is in safe mode."""

from __future__ import annotations

from app.crash import crash_words as words

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
