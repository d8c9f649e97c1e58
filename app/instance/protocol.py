"""What both ends of the local socket must agree on."""

from __future__ import annotations

PROTOCOL = 1
"""Changes when a program of another version would misread the lines."""

LIVE = {"ask": "live"}
"""Asks for the live figures: what there is, then what changes, until the asker leaves."""

DONE = {"done": True}
"""Answers what `opening` asks."""


def opening(model: str | None) -> dict[str, str | None]:
    """Asks the app to show its window, and to open the model at this path where there is one."""
    return {"ask": "open", "model": model}
