"""Commands about cached pages: what each does to the models in memory."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from engine.commands import Flush, Forget, Keep, Pin, Release, Share
from engine.errors import EngineError
from engine.events.cache import Flushed, Freed
from engine.events.events import Event
from engine.residents.residents import Residents

_TELL_WITHIN = 0.25
"""Seconds for which the answers to Release and Flush wait for pages to be written."""

_BESIDE_ANSWERS = 0.02
"""The same while there are answers, of any model, that would wait too."""

CacheCommand = Forget | Keep | Share | Pin | Release | Flush


def handle_cache(command: CacheCommand, models: Residents, emit: Callable[[Event], None]) -> None:
    """Do it; emits what somebody waits for."""
    seconds = _BESIDE_ANSWERS if models.busy else _TELL_WITHIN
    match command:
        case Forget():
            models.forget(command.chat)
        case Keep():
            if (serving := models.find(command.model)) is not None:
                serving.chats.keep(command)
            else:
                emit(Freed(command.chat, 0, 0))
        case Share():
            with suppress(EngineError):  # nothing is there that could be the branch's
                models.wanted(command.model, "answers and pinned chats").chats.share(
                    command.chat, command.tokens
                )
        case Pin():
            for serving in models.servings:
                serving.chats.pin(command.chat, command.pinned)
        case Release():
            for serving in models.servings:
                serving.release(command.chat, seconds)
        case Flush():
            flushed = [serving.flush(seconds) for serving in models.servings]
            emit(Flushed(is_all=all(flushed)))
