"""What both ends of the local socket must agree on."""

from __future__ import annotations

import os
from dataclasses import dataclass

PROTOCOL = 1
"""Changes when a program of another version would misread the lines."""

LIVE = {"ask": "live"}
"""Asks for the live figures: what there is, then what changes, until the asker leaves."""

DONE = {"done": True}
"""Answers what `opening_ask` asks."""


@dataclass(frozen=True, slots=True)
class Opening:
    """What the window is to open when it comes forward.

    Attributes:
        model: absolute path of a model.
        wanted: a link, or the absolute path of a file: what the window makes of it, it says itself.
    """

    model: str | None = None
    wanted: str | None = None


def opening_ask(opening: Opening) -> dict[str, str | None]:
    """Asks the app to show its window, and to open this there."""
    return {"ask": "open", "model": opening.model, "open": opening.wanted}


def opening_asked(asked: object) -> Opening | None:
    """What `opening_ask` made, also by a version that knew of models only; None for anything else."""
    match asked:
        case {"ask": "open", "model": str() | None as model, "open": str() | None as wanted}:
            opening = Opening(model, wanted)
        case {"ask": "open", "model": str() | None as model}:
            opening = Opening(model)
        case _:
            return None
    return opening if _can_be_path(opening.model) and _can_be_path(opening.wanted) else None


def _can_be_path(text: str | None) -> bool:
    """Whether a file can be called so; of what none can, the window could not even say what is wrong."""
    try:
        return b"\0" not in os.fsencode(text or "")
    except UnicodeEncodeError:  # half a surrogate pair
        return False
