"""What is compiled while the engine rests, and when."""

from __future__ import annotations

from collections.abc import Sequence

from engine.live_runner import LiveRunner

PAUSE_S = 0.5
"""Seconds of rest before each step: whoever opens a model, or has read an answer, may be about to ask."""

TYPING_S = 3.0
"""The same where somebody has begun to write: a step that compiles would hold up the first token."""


class Warming:
    """Compiles the steps of runners that are cold, one at a time.

    It is nobody's time: what speculation is judged by are steps of requests alone.
    """

    def __init__(self, runners: Sequence[LiveRunner]) -> None:
        """`runners`: the most wanted first."""
        self._runners = runners
        self._pause = PAUSE_S

    @property
    def cold_steps(self) -> int:
        """Kinds of steps whose kernels are not compiled yet."""
        return sum(runner.cold_steps for runner in self._runners)

    def expect(self) -> None:
        """A request is being written: what is cold waits longer, and as usual again after its next step."""
        self._pause = TYPING_S

    def due(self, other: float | None) -> float | None:
        """Seconds of rest from now until there is something to do, here or in `other`; None: nothing."""
        if not self.cold_steps:
            return other
        return self._pause if other is None else min(self._pause, other)

    def warm(self, idle_seconds: float) -> bool:
        """Compile one more kind of step, if one is cold and nobody has asked for anything for long enough.

        Returns whether it did.
        """
        runner = next((runner for runner in self._runners if runner.cold_steps), None)
        if runner is None or idle_seconds < self._pause:
            return False
        self._pause = PAUSE_S
        runner.warm_next()
        return True
