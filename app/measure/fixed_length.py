"""An engine whose answers are all equally long, so that their speeds can be compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from engine import Command, Engine, EngineSettings, Event, Generate, SamplingParams

QUESTION = "What is a page?"
KV_BYTES = 256 << 20
SAMPLING = SamplingParams(temperature=2.0, seed=7)
"""Hot: after an answer's end the likeliest token is that end again, without text for the window to show."""


class FixedLength:
    """An engine that answers every request with the same tokens."""

    def __init__(self, emit: Callable[[Event], None], tokens: int) -> None:
        self._engine = Engine(emit, EngineSettings(kv_bytes=KV_BYTES, speculation=False))
        self._tokens = tokens
        self.start = self._engine.start
        self.close = self._engine.close

    def submit(self, command: Command) -> None:
        """Queue a command; a Generate gets the fixed length."""
        if isinstance(command, Generate):
            command = replace(command, max_tokens=self._tokens, ignore_eos=True, sampling=SAMPLING)
        self._engine.submit(command)
