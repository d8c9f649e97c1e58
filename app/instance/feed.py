"""What the engine last said of each loaded model, as lines of JSON for whoever listens."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from app import VERSION
from app.instance.protocol import PROTOCOL
from engine import Event, KernelsChosen, ModelInfo, ModelReady, ModelUnloaded, Stats


class LiveFeed:
    """Keeps the newest Stats of every model in memory; says that there is news only while it is watched."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._models: dict[str, ModelInfo] = {}
        self._stats: dict[str, Stats] = {}
        self._gone: dict[str, str] = {}
        self._changed: set[str] = set()
        self._on_news: Callable[[], None] | None = None

    def take(self, event: Event) -> None:
        """Look at an event; for the engine's thread."""
        if isinstance(event, Stats | ModelReady | KernelsChosen | ModelUnloaded):
            with self._lock:
                self._changed.add(self._note(event))
                on_news = self._on_news
            if on_news is not None:
                on_news()

    def watch(self, on_news: Callable[[], None] | None) -> None:
        """Call `on_news`, on the engine's thread, whenever there is news; None: nobody listens any more."""
        with self._lock:
            self._changed.clear()
            self._on_news = on_news

    def everything(self) -> bytes:
        """A line that says who speaks, then one for each model in memory."""
        with self._lock:
            who = {"mlxr": VERSION, "protocol": PROTOCOL, "pid": os.getpid(), "models": len(self._models)}
            return _line(who) + b"".join(map(self._line_of, self._models))

    def changed(self) -> set[str]:
        """The models that have changed since the last time."""
        with self._lock:
            changed, self._changed = self._changed, set[str]()
            return changed

    def lines(self, models: set[str]) -> bytes:
        """A line for each of these models, as it is now."""
        with self._lock:
            return b"".join(map(self._line_of, sorted(models)))

    def _note(self, event: Stats | ModelReady | KernelsChosen | ModelUnloaded) -> str:
        """Keep what is said; returns the path of the model that it is said of."""
        if isinstance(event, Stats):
            self._stats[event.model] = event
            return event.model
        if isinstance(event, ModelUnloaded):
            self._models.pop(event.path, None)
            self._stats.pop(event.path, None)
            self._gone[event.path] = event.reason
            return event.path
        if isinstance(event, ModelReady):  # anew, perhaps: what was counted before is not this one's
            self._stats.pop(event.model.path, None)
        self._models[event.model.path] = event.model
        return event.model.path

    def _line_of(self, path: str) -> bytes:
        model, stats = self._models.get(path), self._stats.get(path)
        if model is None:
            return _line({"model": path, "unloaded": self._gone.get(path, "asked")})
        return _line({"at": time.time(), "model": asdict(model), "stats": asdict(stats) if stats else None})


def _line(value: dict[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=True).encode() + b"\n"
