"""The engine: one thread that owns every array, takes commands from a queue and emits events."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue

import mlx.core as mx

from engine.cache_events import Freed
from engine.commands import (
    Cancel,
    Command,
    Forget,
    Generate,
    Keep,
    LetRest,
    LoadModel,
    Pin,
    Predict,
    Shutdown,
    UnloadModel,
)
from engine.errors import NoModel
from engine.events import (
    Event,
    Failed,
    Finished,
    ModelReady,
    ModelUnloaded,
    UnloadReason,
)
from engine.failure import failure
from engine.idle_trials import IdleTrials
from engine.opening import open_model
from engine.request import accept_command
from engine.resting import Resting
from engine.serving import Serving
from engine.settings import EngineSettings

log = logging.getLogger(__name__)


_TRIALS_SECONDS = 1.0
"""For which the end of the thread waits for a trial's process to end."""


@dataclass(frozen=True, slots=True)
class _TrialEnded:
    """Among the commands: a trial of kernels ended, with verdicts or without."""

    has_verdicts: bool


class Engine:
    """Runs requests on one loaded model.

    `submit` may be called from any thread and never blocks. `emit` is called on the engine's thread and
    should only hand the event on. Every LoadModel ends in ModelReady or Failed, every Generate in Finished or
    Failed. A model that has left memory because nobody used it is loaded again for the next Generate or
    Predict: LoadProgress and ModelReady or Failed then come again, with the id of its LoadModel.
    """

    def __init__(self, emit: Callable[[Event], None], settings: EngineSettings | None = None) -> None:
        self._emit_to = emit
        self._settings = settings or EngineSettings()
        self._commands: SimpleQueue[tuple[Command | _TrialEnded, float]] = SimpleQueue()
        self._trials = IdleTrials(
            ended=lambda has_verdicts: self._commands.put((_TrialEnded(has_verdicts), 0))
        )
        self._has_verdicts = False
        self._forgotten: set[str] = set()
        self._in_flight: set[str] = set()
        self._in_flight_lock = threading.Lock()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mlxr-engine", daemon=True)
        self._serving: Serving | None = None
        self._resting = Resting(self._settings.unload_after)

    def start(self) -> None:
        """Start the thread. Raises RuntimeError when it was started before."""
        self._thread.start()

    def submit(self, command: Command) -> None:
        """Queue a command. Raises ValueError when a Generate or LoadModel repeats the id of one in flight."""
        if isinstance(command, Generate | LoadModel):
            with self._in_flight_lock:
                if command.id in self._in_flight:
                    raise ValueError(f"a request called {command.id!r} is in flight already")
                self._in_flight.add(command.id)
        if isinstance(command, Shutdown):
            self._closing.set()
        self._commands.put((command, time.perf_counter()))

    def close(self, timeout: float | None = None) -> bool:
        """Shut down and wait. Returns whether the thread has ended within `timeout` seconds."""
        if self._thread.ident is None:
            return True
        self.submit(Shutdown())
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        running = True
        while running:
            running = self._drain()
            if running and self._serving is not None:
                if self._serving.busy:
                    self._resting.used()
                self._serving.work()
        self._unload()
        self._trials.close(_TRIALS_SECONDS)

    def _drain(self) -> bool:
        """Handle what is queued, waiting while there is nothing else to do. False after Shutdown."""
        wait = self._serving is None or not self._serving.busy
        if wait:
            self._rest()
        idle_since = time.perf_counter()
        while True:
            try:
                command, arrived = self._commands.get(block=wait, timeout=self._patience())
            except Empty:
                if not wait:
                    return True
                if self._next_leave == 0:
                    self._send_away()
                else:
                    self._tidy(time.perf_counter() - idle_since)
                continue
            if isinstance(command, Shutdown):
                return False
            if isinstance(command, _TrialEnded):
                self._has_verdicts |= command.has_verdicts
            else:
                self._trials.stop()
                self._handle(command, arrived)
            wait = False

    def _rest(self) -> None:
        """There is nothing to do: what trials have chosen is taken into use, what waits for one is tried."""
        if self._serving is None:
            return
        if self._has_verdicts:
            self._has_verdicts = False
            try:
                self._serving.choose_kernels()
            except Exception:  # what runs already goes on
                log.exception("kernels could not be chosen anew")
        kernels = self._serving.model.kernels
        if kernels is not None and not kernels.choice.is_forced:
            self._trials.begin(kernels.choice.selection)

    def _patience(self) -> float | None:
        """Seconds until there is something to tidy up; None when there is nothing."""
        if self._serving is None:
            return None
        dues = (self._serving.next_tidying, self._next_leave)
        return min((due for due in dues if due is not None), default=None)

    @property
    def _next_leave(self) -> float | None:
        """Seconds until the model leaves memory; None: it stays as long as nothing changes."""
        stays = self._serving is None or self._serving.holds_pinned
        return None if stays else self._resting.due

    def _send_away(self) -> None:
        """Nobody has used the model for long: it makes room, and comes back with the next request."""
        self._unload("idle")
        self._resting.sent_away()

    def _tidy(self, idle_seconds: float) -> None:
        if self._serving is None:
            return
        try:
            self._serving.tidy(idle_seconds)
        except Exception:  # nobody asked for it
            log.exception("pages could not be put away")

    def _handle(self, command: Command, arrived: float) -> None:
        match command:
            case LoadModel():
                self._guard(command.id, lambda: self._load(command))
            case Generate():
                self._guard(command.id, lambda: self._begin(command, arrived))
            case Cancel():
                if self._serving is not None:
                    self._serving.cancel(command.id, command.sample)
            case Predict():
                self._guard(command.request.id, lambda: self._predict(command.request, arrived))
            case Forget():
                if self._serving is not None:
                    self._serving.forget(command.chat)
                else:
                    self._forgotten.add(command.chat)  # its pages on SSD go when they can be seen
            case Keep():
                self._keep(command)
            case Pin():
                if self._serving is not None:
                    self._serving.pin(command.chat, command.pinned)
            case LetRest():
                self._resting.after = command.after
            case UnloadModel():
                self._unload()
                if (resting := self._resting.command) is not None:
                    self._emit(ModelUnloaded(resting.path))
                self._resting.over()
            case Shutdown():
                raise AssertionError("Shutdown is handled by the queue")

    def _guard(self, request_id: str, action: Callable[[], None]) -> None:
        """The top of the thread for one request: whatever happens becomes its Failed."""
        try:
            action()
        except Exception as error:  # noqa: BLE001 — the top of the thread
            self._emit(failure(request_id, error))

    def _load(self, command: LoadModel) -> None:
        self._unload()
        self._resting.over()
        self._serving = open_model(command, self._settings, self._emit, self._closing.is_set)
        self._resting.loaded(command)
        self._emit(ModelReady(command.id, self._serving.model.info))
        while self._forgotten:
            self._serving.forget(self._forgotten.pop())
        self._serving.tell()

    def _begin(self, command: Generate, arrived: float) -> None:
        serving = self._loaded()
        serving.add(accept_command(command, serving.model, partial(serving.capacity, command.chat), arrived))

    def _predict(self, command: Generate, arrived: float) -> None:
        serving = self._loaded()
        request = accept_command(command, serving.model, partial(serving.capacity, command.chat), arrived)
        self._emit(serving.predict(request))

    def _keep(self, command: Keep) -> None:
        if self._serving is not None:
            self._serving.keep(command)
        else:
            self._emit(Freed(command.chat, 0, 0))

    def _loaded(self) -> Serving:
        """The model for a request; one that rests is loaded again. Raises NoModel, and what loading does."""
        if self._serving is None and (resting := self._resting.command) is not None:
            self._wake(resting)
        if self._serving is None:
            raise NoModel("no model is loaded; open one first")
        self._resting.used()
        return self._serving

    def _wake(self, command: LoadModel) -> None:
        try:
            self._load(command)
        except Exception as error:
            self._resting.command = command  # the next request tries again: a disk may come back
            self._emit(failure(command.id, error))
            raise

    def _unload(self, reason: UnloadReason = "asked") -> None:
        if self._serving is None:
            return
        path = self._serving.model.info.path
        try:
            self._serving.close()
        except Exception:  # a device that is lost: the model goes all the same
            log.exception("pages could not be put away")
        self._serving = None
        mx.synchronize()  # a GPU lets go of arrays only when its last step has ended
        mx.clear_cache()
        self._emit(ModelUnloaded(path, reason))

    def _emit(self, event: Event) -> None:
        if isinstance(event, Finished | Failed | ModelReady):
            with self._in_flight_lock:
                self._in_flight.discard(event.id)
        try:
            self._emit_to(event)
        except Exception:  # the receiver's mistake must not take the engine down
            log.exception("an event's receiver raised")
