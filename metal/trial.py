"""The process that tries kernels: `python -m metal.trial --provider MODULE`; a kernel may end it.

Standard input: one line of JSON, the work (`metal.trial_messages`); then the line "go" for each candidate
that is to be launched for the first time. Standard output: a line of JSON before and after everything that
is done, so that whoever reads it knows what was running when this process died.
"""

from __future__ import annotations

import argparse
import importlib
import math
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TextIO, cast

from metal.errors import KernelBuildError, KernelError, KernelRefused
from metal.trial_case import Case, CaseBuilder
from metal.trial_messages import Line, Task, Work, encode, tells_of_memory
from metal.trial_record import Status
from metal.trial_scope import open_executor
from metal.trial_timing import DeviceWork, TimingPlan, time_candidates

_COMPILER_WORDS = ("compil", "nvrtc", "unable to build metal library", "metallib")


def main() -> None:
    """Does the work that standard input asks for."""
    parser = argparse.ArgumentParser(prog="python -m metal.trial")
    parser.add_argument("--provider", action="append", default=[], help="a module with CASES")
    providers = parser.parse_args().provider
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what compilers and libraries print does not mix with the answers
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    _Worker(out, sys.stdin, _builders(providers)).run()


def _builders(providers: Sequence[str]) -> dict[str, Mapping[str, CaseBuilder]]:
    return {
        name: cast("Mapping[str, CaseBuilder]", importlib.import_module(name).CASES) for name in providers
    }


class _Worker:
    def __init__(
        self, out: TextIO, orders: TextIO, builders: Mapping[str, Mapping[str, CaseBuilder]]
    ) -> None:
        self._out = out
        self._orders = orders
        self._builders = builders
        self._work = Work.decode(orders.readline())
        self._device_work = cache(DeviceWork)

    def run(self) -> None:
        executor = open_executor(self._work.executor, Path(self._work.cache_folder))
        self._say(Line("ready"))
        for index, task in enumerate(self._work.tasks):
            self._say(Line("case", index))
            try:
                case = self._builders[task.spec.provider][task.spec.op](task.spec.params, executor)
            except KernelError as error:
                self._say(Line("no case", index, reason=_first_line(error)))
                continue
            if not self._try(index, task, case):
                return

    def _try(self, index: int, task: Task, case: Case) -> bool:
        """Checks and times one case; False when this process should do no more."""
        agreed = list(task.proven)
        for name in task.check:
            if not self._may(Line("check", index, name)):
                return False
            line, is_sound = _check(index, case, name)
            self._say(line)
            if not is_sound:  # what a failed launch leaves behind may fail the next one too
                return False
            if not line.status:
                agreed.append(name)
        if task.is_timed:
            self._time(index, case, agreed)
        return True

    def _time(self, index: int, case: Case, agreed: Sequence[str]) -> None:
        names = [one.name for one in case.contenders if one.name in agreed]
        times: dict[str, float] = {}
        is_lazy = self._work.executor != "emulated"
        if len(names) > 1:
            times = time_candidates(
                case,
                names,
                TimingPlan(),
                is_lazy=is_lazy,
                keep_busy=self._device_work() if is_lazy else None,
                before=lambda name: self._must(Line("time", index, name)),
            )
        self._say(Line("times", index, times=times))

    def _may(self, line: Line) -> bool:
        """Tells what comes next, and waits; whether that is wanted still."""
        self._say(line)
        return self._orders.readline() == "go\n"

    def _must(self, line: Line) -> None:
        """The same, but the process ends where that is not wanted any more."""
        if not self._may(line):
            sys.exit()

    def _say(self, line: Line) -> None:
        """Tells, and gives what comes next its time: an orphan that hangs ends by itself."""
        signal.setitimer(signal.ITIMER_REAL, 2 * self._work.limit_s)
        self._out.write(encode(line))
        self._out.flush()


def _check(index: int, case: Case, name: str) -> tuple[Line, bool]:
    """What came of the first run of a candidate, and whether this process is still sound."""
    try:
        error = case.error(name)
    except KernelBuildError as failure:
        return _failed(index, name, "does not compile", f"does not compile: {_first_line(failure)}"), True
    except KernelRefused as failure:
        return _failed(index, name, "died", f"refused: {_first_line(failure)}"), True
    except KernelError as failure:
        return _failed(index, name, "unsupported", _first_line(failure)), True
    except Exception as failure:  # noqa: BLE001  the top of the process: whatever a launch raises is its verdict
        text = _first_line(failure)
        if tells_of_memory(str(failure)):
            return Line("no memory", index, name, reason=text), False
        if any(word in str(failure).lower() for word in _COMPILER_WORDS):
            return _failed(index, name, "does not compile", f"does not compile: {text}"), False
        return _failed(index, name, "died", f"raised {type(failure).__name__}: {text}"), False
    if name == case.contenders[0].name:  # MLX's own is what runs anyway: its error is told, not judged
        return Line("checked", index, name, error=error if math.isfinite(error) else None), True
    if math.isnan(error):
        return _failed(index, name, "disagrees", "disagrees: its results hold NaN"), True
    if error > case.tolerance:
        reason = f"disagrees: error {error:.2g} > {case.tolerance:.2g}"
        finite = error if math.isfinite(error) else None
        return Line("checked", index, name, status="disagrees", reason=reason, error=finite), True
    return Line("checked", index, name, error=error), True


def _failed(index: int, name: str, status: Status, reason: str) -> Line:
    return Line("checked", index, name, status=status, reason=reason)


def _first_line(error: Exception) -> str:
    """The line that says what is wrong: compilers tell before it what they were asked."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return next((line for line in lines if "error:" in line), lines[0] if lines else type(error).__name__)


if __name__ == "__main__":
    main()
