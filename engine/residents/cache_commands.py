"""Commands about cached pages: what each does to the models in memory."""

from __future__ import annotations

from collections.abc import Callable

from engine.commands import Flush, Forget, Keep, Pin, Release, Share
from engine.events.cache import Flushed, Freed
from engine.events.events import Event
from engine.residents.residents import Residents

CacheCommand = Forget | Keep | Share | Pin | Release | Flush


def handle_cache(command: CacheCommand, models: Residents, emit: Callable[[Event], None]) -> None:
    """Do it; emits what somebody waits for."""
    match command:
        case Forget():
            models.forget(command.chat)
        case Keep():
            if (serving := models.find(command.model)) is not None:
                serving.chats.keep(command)
            else:
                emit(Freed(command.chat, 0, 0))
        case Share():
            if (serving := models.find(command.model)) is not None:
                serving.chats.share(command.chat, command.tokens)
        case Pin():
            for serving in models.servings:
                serving.chats.pin(command.chat, command.pinned)
        case Release():
            for serving in models.servings:
                serving.release(command.chat)
        case Flush():
            flushed = [serving.flush() for serving in models.servings]
            emit(Flushed(is_all=all(flushed)))
