"""What becomes of commands that are never begun: whoever waits for one hears of it."""

from __future__ import annotations

import logging

from engine.commands import (
    Command,
    Flush,
    Forget,
    Generate,
    Keep,
    LoadModel,
    MeasureBandwidth,
    Predict,
    ProfileStep,
)
from engine.errors import EngineClosed
from engine.events.cache import Flushed, Freed
from engine.events.events import Event, Finished, Sample, Timing
from engine.events.pages import Bandwidth
from engine.requests.failure import failure

log = logging.getLogger(__name__)

Awaited = Generate | Predict | LoadModel | Keep | MeasureBandwidth | ProfileStep | Forget | Flush
"""Commands that somebody waits for, or rests assured of."""


def refusal(command: Command, why: Exception | None = None) -> Event | None:
    """The event that ends `command` without an engine; None for what nobody waits for.

    `why`: what the engine's thread broke at; None where it was shut down.
    """
    error = why or EngineClosed("the engine has ended; start MLXR again")
    match command:
        case Generate() | LoadModel() | ProfileStep():
            return failure(command.id, error)
        case Predict():
            return failure(command.request.id, error)
        case Keep():
            return Freed(command.chat, 0, 0)
        case Flush():
            return Flushed(is_all=True)
        case MeasureBandwidth():
            return Bandwidth(None)
        case Forget():
            log.warning("a chat was deleted when the engine had ended: what it computed may stay on SSD")
        case _:
            pass
    return None


def withdrawn(command: Generate) -> Finished:
    """The event that ends a request which nobody wants any more before its turn has come."""
    none = Sample("cancelled", "", (), None)
    others = (none,) * (command.n - 1)
    return Finished(command.id, none.reason, "", (), (), None, Timing(0.0, 0, 0, 0.0, 0.0), others=others)
