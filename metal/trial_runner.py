"""The side of a trial that survives: starts trial processes and says what became of candidates."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Literal, Self

from metal.errors import KernelError
from metal.trial_messages import Line, Task, Work, decode, tells_of_memory
from metal.trial_record import Status
from metal.trial_scope import ExecutorName

COMMAND = (sys.executable, "-P", "-m", "metal.trial")  # -P: a folder "metal" where we stand is not ours
_HOME = str(Path(__file__).parents[1])
START_S = 90.0  # importing MLX and waking a GPU, on a busy machine
_POLL_S = 0.05


class TrialError(KernelError):
    """Trials cannot be made here: the process that makes them does not start, or makes no sense."""


@dataclass(frozen=True, slots=True)
class Checked:
    """A candidate of task `index` ran, or died of it; `status` "" when it agreed."""

    index: int
    candidate: str
    status: Status | Literal[""]
    reason: str = ""
    error: float | None = None


@dataclass(frozen=True, slots=True)
class Timed:
    """All candidates of task `index` that agreed were timed: microseconds by name. Its last outcome."""

    index: int
    times: dict[str, float]


@dataclass(frozen=True, slots=True)
class Dropped:
    """Task `index` cannot be tried. Its last outcome."""

    index: int
    reason: str


@dataclass(frozen=True, slots=True)
class Postponed:
    """Task `index` was cut short by a lack of memory, and may be tried another time. Its last outcome."""

    index: int
    reason: str


Outcome = Checked | Timed | Dropped | Postponed


@dataclass(frozen=True, slots=True)
class TrialRunner:
    """Tries candidates in child processes.

    Attributes:
        executor, cache_folder: see `open_executor`.
        limit_s: time for one candidate's first run, compiling included; the same for a chain that is timed.
        command: starts a trial process.
        start_s: time for that process to start.
    """

    executor: ExecutorName
    cache_folder: Path
    limit_s: float = 60.0
    command: Sequence[str] = COMMAND
    start_s: float = START_S

    def run(
        self,
        tasks: Sequence[Task],
        *,
        before: Callable[[int, str], None] = lambda _index, _name: None,
        stop: Callable[[], bool] = lambda: False,
        meanwhile: Callable[[], bool] = lambda: False,
    ) -> Generator[Outcome, None, None]:
        """Runs tasks in order and yields what happens, as it does. Closing the iterator ends the trial.

        Args:
            before: called with the task's index and a candidate's name before that candidate is launched for
                the first time.
            stop: asked often; once it is true nothing more is launched.
            meanwhile: called again and again, but not while something is timed; whether it had anything to
                do, and so is called again at once.

        Raises:
            TrialError: the process cannot be started.
        """
        left = dict(enumerate(tasks))
        while left and not stop():
            indices = list(left)
            work = Work(self.executor, str(self.cache_folder), self.limit_s, tuple(left.values()))
            with _Child(self.command, work, self.start_s, stop, meanwhile) as child:
                for outcome in child.outcomes(before=lambda at, name, of=indices: before(of[at], name)):
                    mapped = replace(outcome, index=indices[outcome.index])
                    _settle(left, mapped)
                    yield mapped


def _settle(left: dict[int, Task], outcome: Outcome) -> None:
    """Takes from `left` what needs not be done again should the process end now."""
    if not isinstance(outcome, Checked):
        del left[outcome.index]
        return
    task, name = left[outcome.index], outcome.candidate
    check = tuple(one for one in task.check if one != name)
    proven = tuple(one for one in task.proven if one != name)
    task = replace(task, check=check, proven=proven if outcome.status else (*proven, name))
    if task.check or task.is_timed:
        left[outcome.index] = task
    else:
        del left[outcome.index]


class _Child:
    """One trial process. Leaving the context ends it."""

    def __init__(
        self,
        command: Sequence[str],
        work: Work,
        start_s: float,
        stop: Callable[[], bool],
        meanwhile: Callable[[], bool],
    ) -> None:
        self._work = work
        self._start_s = start_s
        self._stop, self._meanwhile, self._is_timing = stop, meanwhile, False
        self._noise = tempfile.TemporaryFile()  # noqa: SIM115  closed in __exit__
        providers = sorted({task.spec.provider for task in work.tasks})
        arguments = [argument for name in providers for argument in ("--provider", name)]
        pipe = subprocess.PIPE
        paths = os.pathsep.join(filter(None, [_HOME, os.environ.get("PYTHONPATH")]))
        self._process = subprocess.Popen(
            [*command, *arguments],
            stdin=pipe,
            stdout=pipe,
            stderr=self._noise,
            bufsize=0,
            env={**os.environ, "PYTHONPATH": paths},
        )
        self._selector = selectors.DefaultSelector()
        self._buffer = b""
        self._is_late = False

    def __enter__(self) -> Self:
        assert self._process.stdout is not None
        self._selector.register(self._process.stdout, selectors.EVENT_READ)
        self._tell(self._work.encode())
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        with suppress(subprocess.TimeoutExpired):  # it is inside the GPU's driver, and ends when that returns
            self._process.wait(5.0)
        for stream in (self._process.stdin, self._process.stdout, self._noise, self._selector):
            if stream is not None:
                stream.close()

    def outcomes(self, before: Callable[[int, str], None]) -> Iterator[Outcome]:
        """What becomes of the work until the process ends, by itself or not."""
        last = self._next(self._start_s)
        if last is None:
            if not self._stop():
                raise TrialError(f"the process that tries kernels did not start: {self._end()}")
            return
        while (line := self._next(self._work.limit_s)) is not None:
            last = line
            if line.event == "check":
                before(line.index, line.candidate)
                self._tell("go\n")
            elif line.event == "time":
                self._meanwhile()
                self._is_timing = True
                self._tell("go\n")
            elif line.event == "checked":
                yield Checked(line.index, line.candidate, line.status, line.reason, line.error)
            elif line.event == "times":
                yield Timed(line.index, dict(line.times))
            elif line.event == "no case":
                yield Dropped(line.index, line.reason)
            elif line.event == "no memory":
                yield Postponed(line.index, line.reason)
        if not self._stop():
            yield from self._blame(last)

    def _blame(self, last: Line) -> Iterator[Outcome]:
        """Whose fault the end of the process is, by what it said last."""
        end = self._end()
        if last.event == "ready":
            raise TrialError(f"the process that tries kernels ended before it tried any: {end}")
        if last.event in ("case", "check", "time") and self._was_short_of_memory(end):
            yield Postponed(last.index, end)
        elif last.event in ("check", "time"):
            status: Status = "hangs" if self._is_late else "died"
            while_timed = " while it was timed" if last.event == "time" else ""
            yield Checked(last.index, last.candidate, status, end + while_timed)
        elif last.event == "case":
            yield Dropped(last.index, end)

    def _was_short_of_memory(self, end: str) -> bool:
        """Nobody but the system sends that signal to a process of ours, and only for memory."""
        was_killed = self._process.returncode == -signal.SIGKILL
        return not self._is_late and (was_killed or tells_of_memory(end))

    def _next(self, patience_s: float) -> Line | None:
        """The process's next line; None when it ended, took too long, or nobody wants to know any more."""
        deadline = monotonic() + patience_s
        assert self._process.stdout is not None
        while b"\n" not in self._buffer:
            if self._stop():
                return None
            had_any = not self._is_timing and self._meanwhile()
            is_late = monotonic() > deadline  # what has come by then was said in time, however late we look
            if self._selector.select(0 if is_late or had_any else _POLL_S):
                data = os.read(self._process.stdout.fileno(), 65536)
                if not data:
                    return None
                self._buffer += data
            elif is_late:
                self._is_late = True
                return None
        self._is_timing = False
        text, _, self._buffer = self._buffer.partition(b"\n")
        try:
            return decode(text.decode("utf-8"))
        except (ValueError, TypeError):
            raise TrialError(f"the process that tries kernels makes no sense: {text[:80]!r}") from None

    def _tell(self, text: str) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended: the next read says so
            self._process.stdin.write(text.encode())

    def _end(self) -> str:
        """How the process ended, in words, with the last thing it said."""
        if self._is_late:
            return f"did not finish within {self._work.limit_s:g} s"
        try:
            code = self._process.wait(5.0)
        except subprocess.TimeoutExpired:
            return "closed its output and went on"
        how = f"ended by {_signal_words(-code)}" if code < 0 else f"ended with code {code}"
        self._noise.seek(0)
        said = [line.strip() for line in self._noise.read().decode("utf-8", "replace").splitlines()]
        last = next((line for line in reversed(said) if line), "")
        return f"{how}: {last[:200]}" if last else how


def _signal_words(number: int) -> str:
    words = {signal.SIGABRT: "abort", signal.SIGSEGV: "a stray access", signal.SIGKILL: "killed"}
    try:
        known = signal.Signals(number)
    except ValueError:
        return f"signal {number}"
    return f"signal {number} ({words.get(known, known.name)})"
