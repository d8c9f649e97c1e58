"""What a process is at whose test does not end: its threads, in native code too."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

TASKS = Path("/proc/self/task")
GLANCE = 2.0
"""Seconds between two looks at the threads: those that have used a processor since are not waiting."""


@dataclass(frozen=True, slots=True)
class ThreadState:
    """A thread as Linux sees it.

    Attributes:
        name: its command name.
        state: R for one that could run, S for one that waits, D on a disk.
        seconds: of processor time so far.
        switches: how often it let others run, of itself and not.
        call: number of the system call that it is in, or "running".
    """

    name: str
    state: str
    seconds: float
    switches: tuple[int, ...]
    call: str


def thread_states() -> dict[int, ThreadState]:
    """All threads of this process, by their number; none but on Linux."""
    states: dict[int, ThreadState] = {}
    for task in sorted(TASKS.glob("*")):
        try:
            head, _, rest = (task / "stat").read_text().rpartition(")")
            lines = (task / "status").read_text().splitlines()
            call = (task / "syscall").read_text().split()
        except OSError:  # it has ended, or may not be looked at
            continue
        fields = rest.split()
        switches = tuple(int(line.split()[1]) for line in lines if "ctxt_switches" in line)
        ticks = int(fields[11]) + int(fields[12])
        name = head.partition("(")[2]
        states[int(task.name)] = ThreadState(
            name, fields[0], ticks / os.sysconf("SC_CLK_TCK"), switches, call[0] if call else "?"
        )
    return states


def _glance() -> None:
    time.sleep(GLANCE)


def account(wait: Callable[[], None] = _glance) -> str:
    """What the threads do while `wait` does, and where they are if this machine has a debugger."""
    before, began = thread_states(), time.monotonic()
    wait()
    seconds = time.monotonic() - began
    lines: list[str] = []
    for number, now in thread_states().items():
        since = before.get(number, now)
        used, switched = now.seconds - since.seconds, sum(now.switches) - sum(since.switches)
        lines.append(
            f"{number} {now.name}: {now.state}, call {now.call}, {now.seconds:.2f} s of processor time, "
            f"{used:.2f} s and {switched} switches in {seconds:.1f} s"
        )
    load = Path("/proc/loadavg")
    lines += [f"load: {load.read_text().strip()}"] if load.exists() else []
    return "\n".join([*lines, _native_stacks()])


def _native_stacks() -> str:
    debugger = shutil.which("gdb")
    if debugger is None:
        return "no gdb here: no native stacks"
    command = ["timeout", "60", debugger, "-p", str(os.getpid()), "-batch", "-ex", "thread apply all bt 12"]
    with tempfile.TemporaryFile("w+") as told:  # this process stands still meanwhile, and empties no pipe
        subprocess.run(command, stdout=told, stderr=subprocess.STDOUT, check=False)
        told.seek(0)
        return told.read()


class Watch:
    """Tells what the process is at when a test has lasted for long: on standard error, and in `told`.

    It takes Python's lock when it tells: a thread that waits for somebody to take it may go on then. So what
    was told is to be shown even if the test passes.
    """

    def __init__(self) -> None:
        self.told: list[str] = []
        self._changed = threading.Condition()
        self._test: tuple[str, float] | None = None
        threading.Thread(target=self._run, name="watch", daemon=True).start()

    def begin(self, test: str, limit: float) -> None:
        """A test of that name begins; to last for `limit` seconds is long."""
        self._set((test, limit))

    def end(self) -> None:
        """It has ended."""
        self._set(None)

    def _set(self, test: tuple[str, float] | None) -> None:
        with self._changed:
            self._test = test
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                test = self._test
                if self._changed.wait(test[1] if test else None) or test is None or test is not self._test:
                    continue
                self._test = None
            self._tell(f"{test[0]} has lasted for {test[1]:g} s")
            self._tell(account())

    def _tell(self, text: str) -> None:
        self.told.append(text)
        print(text, file=sys.stderr, flush=True)
