"""An engine without a model that streams a fixed text at a fixed pace, to measure what stands before it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from queue import SimpleQueue

from engine import (
    Command,
    Event,
    Finished,
    Generate,
    LoadModel,
    ModelInfo,
    ModelReady,
    PrefillProgress,
    Shutdown,
    Stats,
    TextChunk,
    Timing,
)

PAGE_SIZE = 16
PAGES = 4096
STATS_EVERY = 0.1  # seconds, as the real engine

PARAGRAPH = (
    "Keys and values of every token are kept in **pages**, so that `attention` finds them again without "
    "computing them anew. A chat takes as many pages as it needs, *and no more*.\n\n"
)
LIST = "1. A page is filled from its front.\n2. A full page can be shared.\n3. Others are free.\n\n"
TABLE = "| Tokens | Pages |\n|---:|---:|\n| 16 | 1 |\n| 17 | 2 |\n| 200 | 13 |\n\n"
CODE = "```python\ndef pages(tokens: int, size: int = 16) -> int:\n    return -(-tokens // size)\n```\n\n"
SAMPLE = (PARAGRAPH * 3 + LIST + PARAGRAPH + TABLE + CODE) * 2
"""Markdown of every kind that answers are made of."""


class PacedEngine:
    """Answers every request with `tokens` pieces of SAMPLE, `per_second` of them a second.

    Starts, takes commands and closes like engine.Engine.
    """

    def __init__(self, emit: Callable[[Event], None], per_second: float, tokens: int) -> None:
        self._emit = emit
        self._interval = 1 / per_second
        self._pieces = _pieces(tokens)
        self._commands: SimpleQueue[Command] = SimpleQueue()
        self._closing = threading.Event()
        self._model = ""
        self._thread = threading.Thread(target=self._run, name="mlxr-paced-engine", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def submit(self, command: Command) -> None:
        """Queue a command."""
        if isinstance(command, Shutdown):
            self._closing.set()
        self._commands.put(command)

    def close(self, timeout: float | None = None) -> bool:
        """Shut down and join."""
        if self._thread.ident is None:
            return True
        self.submit(Shutdown())
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self._closing.is_set():
            command = self._commands.get()
            if isinstance(command, LoadModel):
                self._model = command.path
                self._emit(ModelReady(command.id, _model_info(command.path)))
            elif isinstance(command, Generate):
                self._stream(command.id)

    def _stream(self, request_id: str) -> None:
        started = next_stats = time.monotonic()
        self._emit(PrefillProgress(request_id, 20, 20, 0))
        for number, piece in enumerate(self._pieces, start=1):
            due = started + number * self._interval
            if self._closing.wait(max(0.0, due - time.monotonic())):
                break
            self._emit(TextChunk(request_id, piece, number))
            if time.monotonic() >= next_stats:
                next_stats += STATS_EVERY
                self._emit(_stats(self._model, request_id, number, 1 / self._interval))
        text = "".join(self._pieces)
        timing = Timing(1.0, 20, 0, 20_000.0, 1 / self._interval)
        tokens = tuple(range(len(self._pieces)))
        self._emit(Finished(request_id, "stop", text, tokens, (1, 2), None, timing))


def _pieces(tokens: int) -> tuple[str, ...]:
    """SAMPLE in pieces the length of common tokens, over and over."""
    size = 4
    text = SAMPLE * (tokens * size // len(SAMPLE) + 1)
    return tuple(text[start : start + size] for start in range(0, tokens * size, size))


def _stats(model: str, active: str, tokens: int, tps: float) -> Stats:
    return Stats(active, 0, tokens, tps, 0.0, -(-tokens // PAGE_SIZE), PAGES, 0, 0, model=model)


def _model_info(path: str) -> ModelInfo:
    return ModelInfo(
        path=path,
        name="paced",
        family="llama",
        parameters=0,
        weight_bytes=0,
        dtype="float32",
        context_length=65_536,
        page_size=PAGE_SIZE,
        total_pages=PAGES,
        page_bytes=1,
        executor="reference",
        executor_reason="there is no model",
        device="CPU",
        has_chat_template=True,
    )
