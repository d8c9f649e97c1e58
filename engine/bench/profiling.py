"""A profile of a loaded model's decode step, taken round by round while nobody asks for anything."""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Callable

import mlx.core as mx

from engine.bench.step_parts import TimedParts
from engine.bench.step_profile import StepProfile, StepProfiled
from engine.errors import EngineError
from engine.events.events import Event
from engine.kv.page_table import PageTable
from engine.kv.pager import OutOfPages
from engine.live_runner import LiveRunner
from engine.loading.model import LoadedModel
from engine.requests.failure import failure
from engine.steps.parts import Part

TOKENS = 512
"""Most tokens that the sequence has in pages: what attention takes hangs on it."""

FEWEST, MOST = 5, 25
"""Rounds that are timed: as many as there is time for."""

SECONDS = 1.0
"""After so long no round begins that is not one of the FEWEST."""

_LOOKS = 5
"""Times in a round that nothing is waited for."""


class StepProfiler:
    """Takes one profile: `go_on` until it `is_done`, and `close` whatever came of it. For an engine at rest.

    The sequence has pages of its own, which are taken as a request's are. What they hold means nothing.
    """

    def __init__(self, model: LoadedModel, live: LiveRunner) -> None:
        """Raises OutOfPages where KV memory is full, and what its growth may raise: no page is held then."""
        self._model, self._live, self._runner = model, live, live.runner
        self._launches_before, self._tokens_before = live.runner.launches.copy(), live.runner.tokens
        self._first = max(0, min(TOKENS, model.info.context_length) - MOST - 2)
        self._table = PageTable()
        self._take_pages()
        self._table.length = self._first
        self._token = mx.zeros(1, mx.uint32)
        self._parts = TimedParts(self._runner.decode_ops, model.kernels, is_lazy=self._runner.is_lazy)
        self._launches, self._picks = Counter[str](), Counter[str]()
        self._steps, self._building, self._empty = list[float](), list[float](), list[float]()
        self._began = 0.0

    @property
    def is_done(self) -> bool:
        """Whether there were enough rounds."""
        rounds = len(self._steps)
        return rounds == MOST or (rounds >= FEWEST and time.perf_counter() - self._began >= SECONDS)

    def go_on(self) -> None:
        """One more round. Raises what a step may raise."""
        is_first = not self._began
        step, building = self._whole()
        self._in_parts()
        if is_first:  # it compiles what is not compiled yet
            self._began = time.perf_counter()
            return
        self._steps.append(step)
        self._building.append(building)
        self._empty += [_wait_for_nothing() for _ in range(_LOOKS)]

    def profile(self) -> StepProfile:
        """What the rounds so far have shown, of which there is one at least."""
        empty = statistics.median(self._empty) if self._runner.is_lazy else 0.0
        return StepProfile(
            model=self._model.info.path,
            tokens=self._table.length,
            rounds=len(self._steps),
            step=statistics.median(self._steps),
            building=statistics.median(self._building) if self._runner.is_lazy else None,
            empty=empty,
            parts=self._parts.parts(empty),
            launches=dict(self._launches),
        )

    def broke(self, error: Exception) -> None:
        """A round raised: as after any step that broke, what pages hold and kernels are not trusted."""
        self._live.drop_pages([self._table])
        self._live.doubt(error)

    def close(self) -> None:
        """Give the pages back; nothing was counted."""
        self._model.memory.free(self._table)
        self._runner.launches.clear()
        self._runner.launches.update(self._launches_before)
        self._runner.tokens = self._tokens_before
        mx.clear_cache()

    def _take_pages(self) -> None:
        try:
            self._model.memory.grow(self._table, self._first + MOST + 2)
        except OutOfPages:  # nothing has changed
            raise
        except Exception as error:
            self.broke(error)
            raise

    def _whole(self) -> tuple[float, float]:
        """Seconds of a step, and those of them in which it was built."""
        runner, before = self._runner, self._runner.launches.copy()
        mx.eval(self._token, runner.results)
        began = time.perf_counter()
        logits = runner.step([Part(self._table)], self._token)
        stepped = time.perf_counter()
        launched = runner.launches - before
        resumed = time.perf_counter()
        picked = runner.pick(logits)
        built = time.perf_counter()
        mx.eval(picked, runner.results)
        ended = time.perf_counter()
        self._launches = runner.launches - before
        self._picks = self._launches - launched
        uncounted = resumed - stepped
        return ended - began - uncounted, built - began - uncounted

    def _in_parts(self) -> None:
        """The next step, part by part; the one after it writes the same tokens again."""
        decoder, parts = self._model.decoder, self._parts
        attend = parts.attend(self._runner.attend_decode(Part(self._table)))
        logits = decoder.logits(decoder.hidden(self._token, parts, attend), parts)
        parts.pick(self._runner.pick, logits, self._picks)
        parts.next_step()


class Profiling:
    """At most one profile at a time; for one thread, the engine's. Each ends in StepProfiled or Failed."""

    def __init__(self, emit: Callable[[Event], None]) -> None:
        self._emit = emit
        self._id = ""
        self._profiler: StepProfiler | None = None

    @property
    def is_running(self) -> bool:
        """Whether `go_on` has something to do."""
        return self._profiler is not None

    def begin(self, request_id: str, profiler: StepProfiler) -> None:
        """Take this profile; none is under way."""
        self._id, self._profiler = request_id, profiler

    def go_on(self) -> None:
        """A round of it: a few steps' time."""
        profiler = self._profiler
        if profiler is None:
            return
        try:
            profiler.go_on()
        except Exception as error:  # noqa: BLE001 — the top of the thread for a profile
            profiler.broke(error)
            self._end(profiler, failure(self._id, error))
        else:
            if profiler.is_done:
                self._end(profiler, StepProfiled(self._id, profiler.profile()))

    def stop(self, why: str) -> None:
        """Whoever asks for an answer goes first."""
        if self._profiler is not None:
            self._end(self._profiler, failure(self._id, EngineError(f"the profile was stopped: {why}")))

    def _end(self, profiler: StepProfiler, event: Event) -> None:
        self._profiler = None
        profiler.close()
        self._emit(event)


def _wait_for_nothing() -> float:
    """Seconds in which one number is computed."""
    number = mx.array(1.0) + 1.0
    began = time.perf_counter()
    mx.eval(number)
    return time.perf_counter() - began
