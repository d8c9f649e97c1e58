"""What becomes of requests whose step broke: who is suspected, for how long, and what a caller is told."""

from __future__ import annotations

import traceback
from dataclasses import dataclass

from engine.errors import EngineError, PromptTooLong, Refused
from engine.events.events import Failed

GOOD_STEPS = 4
"""Steps past the place where one broke that a suspect makes alone before it shares them again."""

_LONGEST = 300
"""Characters of an error that is none of ours; its traceback has all of it."""


@dataclass(slots=True)
class Suspicion:
    """What is held against a request: a step broke that it was in, with others.

    Attributes:
        length: tokens in its pages then; a step that gets no further proves nothing.
        good_steps: that it has made alone since, and that got further.
    """

    length: int
    good_steps: int = 0

    def is_refuted(self, length: int) -> bool:
        """A step of it alone was read, and its pages hold `length` tokens now: whether that is enough."""
        self.good_steps += length > self.length
        return self.good_steps >= GOOD_STEPS


def failure(request_id: str, error: Exception) -> Failed:
    """The event for a request that raised: an EngineError's own line, or what broke."""
    if isinstance(error, EngineError):
        refusal = error.refusal if isinstance(error, Refused) else None
        ways_out = error.ways_out if isinstance(error, PromptTooLong) else ()
        return Failed(request_id, str(error), type(error).__name__, refusal=refusal, ways_out=ways_out)
    detail = "".join(traceback.format_exception(error))
    return Failed(
        request_id,
        f"something broke inside the engine ({_one_line(error)}); the log has the details",
        "Internal",
        detail,
    )


def _one_line(error: Exception) -> str:
    """What it says, such as a compiler's many lines, as one that is fit to show."""
    text = " ".join(str(error).split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
