"""The engine: one thread that owns every array, takes commands from a queue and emits events."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from queue import Empty

from engine.bench.profiling import Profiling
from engine.command_queue import CommandQueue
from engine.commands import (
    Cancel,
    Command,
    Flush,
    Forget,
    Generate,
    Keep,
    LetRest,
    LoadModel,
    MeasureBandwidth,
    Pin,
    Predict,
    ProfileStep,
    PutOffTrials,
    Release,
    Share,
    Shutdown,
    UnloadModel,
    WatchPages,
)
from engine.errors import EngineError, NoModel
from engine.events.events import Event, Failed, Finished
from engine.events.models import ModelReady
from engine.events.pages import Bandwidth
from engine.events.trials import KernelTrials
from engine.kernels.idle_trials import IdleTrials
from engine.machine.bandwidth import read_bandwidth
from engine.machine.processors import ENGINE_THREAD, name_thread
from engine.requests.ended import Awaited, refusal
from engine.requests.failure import failure
from engine.residents.asking import Asking
from engine.residents.cache_commands import handle_cache
from engine.residents.hearing import Hearing
from engine.residents.residents import Residents
from engine.settings import EngineSettings
from engine.worker import end_workers

log = logging.getLogger(__name__)

_TRIALS_SECONDS = 1.0
"""For which the end of the thread waits for a trial's process to end."""


@dataclass(frozen=True, slots=True)
class _TrialEnded:
    """Among the commands: a trial of kernels ended, with verdicts or without."""

    has_verdicts: bool


@dataclass(frozen=True, slots=True)
class _Settled:
    """Among the commands: what was forgotten outlasts a power cut."""


_Notice = _TrialEnded | _Settled | KernelTrials
_Arrived = tuple[Command | _Notice, float]


class Engine:
    """Runs requests on loaded models, which take turns step by step.

    `submit` may be called from any thread and never blocks. `emit` is called on the engine's thread, behind
    Shutdown by `submit` too, and should only hand the event on. Every LoadModel ends in ModelReady or Failed,
    every Generate in Finished or Failed, also where the thread breaks. A model that has left memory because
    nobody used it is loaded again for the next Generate or Predict: LoadProgress and ModelReady or Failed
    then come again, with the id of its LoadModel, or ModelUnloaded where nobody waits for it any more.
    """

    def __init__(self, emit: Callable[[Event], None], settings: EngineSettings | None = None) -> None:
        self._emit_to = emit
        self._commands = CommandQueue[_Arrived]()
        self._trials = IdleTrials(
            ended=lambda has_verdicts: self._commands.put((_TrialEnded(has_verdicts), 0)),
            told=lambda event: self._commands.put((event, 0)),
        )
        self._has_verdicts = False
        self._in_flight: set[str] = set()
        self._taking = threading.Lock()  # what is in flight, and whether more is taken
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name=ENGINE_THREAD, daemon=True)
        self._models = Residents(
            settings or EngineSettings(),
            self._emit,
            self._closing.is_set,
            settled=lambda: self._commands.put((_Settled(), 0)),
            hear=lambda: self._hearing.hear(),
            is_unneeded=lambda: self._hearing.is_unneeded,
            waiting=lambda: self._asking.waiting,
        )
        self._hearing = Hearing[_Notice](
            self._commands, self._models.find, self._do, self._emit, self._waits_for
        )
        self._asking = Asking(self._models, self._hearing.begins, self._hearing.is_withdrawn, self._emit)
        self._profiling = Profiling(self._emit)

    def start(self) -> None:
        """Start the thread. Raises RuntimeError when it was started before."""
        self._thread.start()

    def submit(self, command: Command) -> None:
        """Queue a command.

        Behind Shutdown nothing is done any more: whoever waits hears so at once, by an event on the caller's
        thread. Raises ValueError when a Generate or LoadModel repeats the id of one in flight.
        """
        if not isinstance(command, Awaited | Shutdown):  # may come of a signal, while the lock is held
            self._put(command)
            return
        with self._taking:
            if isinstance(command, Shutdown):
                self._closing.set()
            if not self._closing.is_set() and isinstance(command, Generate | LoadModel):
                if command.id in self._in_flight:
                    raise ValueError(f"a request called {command.id!r} is in flight already")
                self._in_flight.add(command.id)
            if isinstance(command, Shutdown) or not self._closing.is_set():
                self._put(command)
                return
        if (event := refusal(command)) is not None:
            self._emit(event)

    def _put(self, command: Command) -> None:
        self._commands.put((command, time.perf_counter()))

    def close(self, timeout: float | None = None) -> bool:
        """Shut down and wait. Returns whether the thread has ended within `timeout` seconds."""
        self.submit(Shutdown())
        if self._thread.ident is None:
            return True
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        name_thread(ENGINE_THREAD)
        try:
            self._work()
        except Exception as error:
            log.exception("the engine's thread broke")
            self._fail_all(error)
        self._trials.close(_TRIALS_SECONDS)
        end_workers()

    def _work(self) -> None:
        while self._drain():
            self._asking.go_on()
            if self._models.busy:
                self._models.take_turn()
            else:
                self._profiling.go_on()
        self._profiling.stop("the engine ends")
        self._asking.close()
        self._models.close()

    def _fail_all(self, error: Exception) -> None:
        """Nobody works on anything any more: whoever waits hears why."""
        with self._taking:
            self._closing.set()
            asked = set(self._in_flight)
        for request_id in asked:
            self._emit(failure(request_id, error))
        for command, _ in self._commands.take_all():
            if not isinstance(command, Awaited) or isinstance(command, Generate | LoadModel):
                continue
            if (event := refusal(command, error)) is not None:
                self._emit(event)

    def _drain(self) -> bool:
        """Handle what is queued, waiting while there is nothing else to do. False after Shutdown."""
        wait = not (self._models.busy or self._asking.waiting or self._profiling.is_running)
        if wait:
            self._rest()
        while True:
            try:
                timeout = self._models.at_rest.patience if wait else None
                command, arrived = self._commands.get(block=wait, timeout=timeout)
            except Empty:
                if not wait:
                    return True
                self._models.at_rest.look_after()
                continue
            if isinstance(command, Shutdown):
                return False
            if isinstance(command, KernelTrials):
                self._emit(self._trials.now(command))
                continue
            if isinstance(command, _Settled):
                self._models.tell_settled()
                continue
            if isinstance(command, _TrialEnded):
                self._has_verdicts |= command.has_verdicts
            else:
                self._trials.stop()
                self._do(command, arrived)
            wait = False

    def _rest(self) -> None:
        """There is nothing to do: what trials have chosen is taken into use, what waits for one is tried."""
        self._models.at_rest.begins()
        has_verdicts, self._has_verdicts = self._has_verdicts, False
        for serving in self._models.servings:
            if has_verdicts:
                try:
                    serving.choose_kernels()
                except Exception:  # what runs already goes on
                    log.exception("kernels could not be chosen anew")
            kernels = serving.model.kernels
            if kernels is not None and not kernels.choice.is_forced:
                self._trials.begin(serving.model.info.path, kernels.choice.selection)

    def _do(self, command: Command, arrived: float) -> None:
        try:
            self._handle(command, arrived)
        except Exception:  # the top of the thread for what has no end to be told
            log.exception("%s could not be done", type(command).__name__)

    def _handle(self, command: Command, arrived: float) -> None:
        if isinstance(command, Generate | Predict | LoadModel | UnloadModel | Share):
            self._profiling.stop("the engine was asked for something else")
        match command:
            case LoadModel():
                self._guard(command.id, lambda: self._models.load(command))
            case Generate():
                self._guard(command.id, lambda: self._asking.generate(command, arrived))
            case Cancel():
                for serving in self._models.servings:
                    serving.cancel(command.id, command.sample)
                self._asking.cancel(command)
            case Predict():
                self._guard(command.request.id, lambda: self._predict(command, arrived))
            case Forget() | Keep() | Share() | Pin() | Release() | Flush():
                if isinstance(command, Forget):
                    self._asking.forget(command.chat)
                handle_cache(command, self._models, self._emit)
            case WatchPages():
                self._models.watch_pages(command.watched)
            case MeasureBandwidth():
                self._emit(Bandwidth(None if self._models.busy else read_bandwidth()))
            case ProfileStep():
                self._guard(command.id, lambda: self._profile(command))
            case LetRest():
                self._models.at_rest.after = command.after
            case PutOffTrials():
                self._trials.put_off(command.are_put_off)
            case UnloadModel():
                self._asking.unload(command.path)
            case Shutdown():
                raise AssertionError("Shutdown is handled by the queue")

    def _guard(self, request_id: str, action: Callable[[], None]) -> None:
        """The top of the thread for one request: whatever happens becomes its Failed."""
        try:
            action()
        except Exception as error:  # noqa: BLE001 — the top of the thread
            self._emit(failure(request_id, error))

    def _waits_for(self, path: str) -> bool:
        return self._asking.waits_for(path)

    def _predict(self, command: Predict, arrived: float) -> None:
        self._emit(self._asking.predict(command.request, arrived))

    def _profile(self, command: ProfileStep) -> None:
        serving = self._models.find(command.model)
        if serving is None:
            raise NoModel("the model is not in memory: ask it something, and then for the profile")
        if self._models.busy or self._asking.waiting:
            raise EngineError("a request runs: ask for the profile when it has ended")
        self._profiling.stop("another profile was asked for")  # before this one takes pages, and counts
        self._profiling.begin(command.id, serving.profiler())

    def _emit(self, event: Event) -> None:
        if isinstance(event, Finished | Failed | ModelReady):
            with self._taking:
                self._in_flight.discard(event.id)
        try:
            self._emit_to(event)
        except Exception:  # the receiver's mistake must not take the engine down
            log.exception("an event's receiver raised")
