"""What other models are at while one of several works."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """What one model has to know of the others, which have the engine's thread between two of its steps.

    Attributes:
        is_busy: whether any of them has a request.
        answers: that run on them.
        seconds: between tokens of these, without a step of this model's: what one of it may be measured by.
            Where several models read prompts, each one's share; 0 where nobody knows.
    """

    is_busy: bool = False
    answers: int = 0
    seconds: float = 0.0


NOBODY = Elsewhere()
"""One model has the engine to itself."""
