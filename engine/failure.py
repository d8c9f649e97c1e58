"""What a caller is told when its request raised: an error's own line, or that something of ours broke."""

from __future__ import annotations

import traceback

from engine.errors import EngineError, Refused
from engine.events import Failed


def failure(request_id: str, error: Exception) -> Failed:
    """The event for a request that raised: an EngineError's own line, or what broke."""
    if isinstance(error, EngineError):
        refusal = error.refusal if isinstance(error, Refused) else None
        return Failed(request_id, str(error), type(error).__name__, refusal=refusal)
    detail = "".join(traceback.format_exception(error))
    return Failed(
        request_id,
        f"something broke inside the engine ({error}); the log has the details",
        "Internal",
        detail,
    )
