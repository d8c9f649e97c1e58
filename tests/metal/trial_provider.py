"""An op for trials whose candidates do all that kernels can do wrong; they need no kernel and no GPU."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import mlx.core as mx
import numpy as np

from metal.errors import KernelBuildError, KernelError
from metal.executors import Executor
from metal.trial_case import (
    Arrays,
    Case,
    CaseBuilder,
    CaseSpec,
    Data,
    OpCandidate,
    OpCase,
    Params,
    Step,
    against,
)

if TYPE_CHECKING:
    import pytest

HERE = "tests.metal.trial_provider"
CLOCKED = (sys.executable, "-P", "-m", "tests.metal.clocked_trial")
"""Starts a trial process in which candidates take what they are meant to, however busy the machine is."""

LONG = 600.0
"""Seconds that a candidate may take: a test's own limit is over before."""

SIZE = 64


_clock = [0.0]


def clock() -> float:
    """Seconds that candidates have taken in this process, as they are meant to."""
    return _clock[0]


def _twice(_: Arrays) -> Step:
    def step(x: mx.array) -> list[mx.array]:
        _clock[0] += 0.00002
        return [x + x]

    return step


def _slowly(seconds: float) -> Callable[[Arrays], Step]:
    def step(x: mx.array) -> list[mx.array]:
        time.sleep(seconds)
        _clock[0] += seconds
        return [x + x]

    return lambda _: step


NOTED = "MLXR_NOTED"
"""Names a file, in the environment, that has a line for each run: when it began and ended, by the system."""


def _noted(_: Arrays) -> Step:
    def step(x: mx.array) -> list[mx.array]:
        began = time.monotonic()
        time.sleep(0.002)
        _clock[0] += 0.002
        with Path(os.environ[NOTED]).open("a") as file:
            file.write(f"{began} {time.monotonic()}\n")
        return [x + x]

    return step


COMPILED = "MLXR_COMPILED"
"""Names a file, in the environment, in which there is a line for each time that something was compiled."""


@cache
def _compile() -> None:
    with Path(os.environ[COMPILED]).open("a") as file:
        file.write("compiled\n")


def _compiled_once(_: Arrays) -> Step:
    def step(x: mx.array) -> list[mx.array]:
        _compile()
        return [x + x]

    return step


def _abort(_: Arrays) -> Step:
    return lambda _x: os.abort()


def _stray(_: Arrays) -> Step:
    return lambda _x: [mx.array([ctypes.string_at(8)[0]])]


def _sleep(_: Arrays) -> Step:
    return lambda _x: time.sleep(600) or []


def _spin_in_c(_: Arrays) -> Step:
    """Holds the interpreter's lock for ever, as a launch that never comes back does."""
    return lambda _x: ctypes.PyDLL(None).pause() or []


def _spin_at_the_end(_: Arrays) -> Step:
    """The same when hardly anything is left of the time after which the process ends by itself."""

    def step(_x: mx.array) -> list[mx.array]:
        if signal.getitimer(signal.ITIMER_REAL)[0]:
            signal.setitimer(signal.ITIMER_REAL, 0.01)
        return ctypes.PyDLL(None).pause() or []

    return step


def _uncompilable(_: Arrays) -> Step:
    def step(_x: mx.array) -> list[mx.array]:
        raise KernelBuildError("g++ refused the text:\nline 7: oh dear")

    return step


def _unsupported(_: Arrays) -> Step:
    def step(_x: mx.array) -> list[mx.array]:
        raise KernelError("a head size of 7; kernels take 64")

    return step


def _raising(_: Arrays) -> Step:
    def step(_x: mx.array) -> list[mx.array]:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    return step


def _hungry(_: Arrays) -> Step:
    def step(_x: mx.array) -> list[mx.array]:
        raise RuntimeError("[metal::malloc] Unable to allocate 201326592 bytes.")

    return step


def _killed(_: Arrays) -> Step:
    return lambda _x: os.kill(os.getpid(), signal.SIGKILL) or []


def _wrong(_: Arrays) -> Step:
    def step(x: mx.array) -> list[mx.array]:
        _clock[0] += 0.00002
        return [x * 2.3]

    return step


def _nan(_: Arrays) -> Step:
    return lambda x: [x * float("nan")]


def _mean_on_the_second_run(_: Arrays) -> Step:
    runs: list[int] = []

    def step(x: mx.array) -> list[mx.array]:
        runs.append(1)
        if len(runs) > 1:
            os.abort()
        return [x + x]

    return step


BEHAVIOURS: Mapping[str, Callable[[Arrays], Step]] = {
    "mlx": _slowly(0.003),
    "fast": _twice,
    "as fast": _slowly(0.00297),
    "slow": _slowly(0.006),
    "noted": _noted,
    "compiles once": _compiled_once,
    "aborts": _abort,
    "strays": _stray,
    "sleeps": _sleep,
    "spins": _spin_in_c,
    "spins late": _spin_at_the_end,
    "does not compile": _uncompilable,
    "unsupported": _unsupported,
    "raises": _raising,
    "hungry": _hungry,
    "killed": _killed,
    "wrong": _wrong,
    "nan": _nan,
    "aborts later": _mean_on_the_second_run,
}


def spec(*names: str, key: str = "twice", digest: str = "0", log: Path | None = None) -> CaseSpec:
    """A case of MLX's own and these candidates, which write their names into `log` when they run."""
    params = {"names": ",".join(names), "key": key, "digest": digest, "log": str(log) if log else None}
    return CaseSpec(HERE, "twice", params)


def twice(params: Params, _: Executor | None = None) -> Case:
    """Builds the case of `spec`; at the key "times 2.3" only the wrong one is right."""
    names = ["mlx", *filter(None, str(params["names"]).split(","))]
    factor = 2.3 if params["key"] == "times 2.3" else 2.0
    log = params["log"]

    def logged(name: str) -> Callable[[Arrays], Step]:
        def bind(constants: Arrays) -> Step:
            step = BEHAVIOURS[name](constants)

            def call(x: mx.array) -> list[mx.array]:
                if isinstance(log, str):
                    with Path(log).open("a") as file:
                        file.write(f"{name}\n")
                return list(step(x))

            return call

        return bind

    def data() -> Data:
        x = mx.arange(SIZE, dtype=mx.float32)
        return Data(x, ((),), against(factor * np.arange(SIZE, dtype=np.float64)))

    return OpCase(
        CaseSpec(HERE, "twice", params),
        str(params["key"]),
        [OpCandidate(n, logged(n), "" if n == "mlx" else f"{n} {params['digest']}") for n in names],
        data=data,
        tolerance=1e-5,
    )


def impossible(_params: Params, _executor: Executor) -> Case:
    raise KernelError("there is no such shape")


def deadly(_params: Params, _executor: Executor) -> Case:
    os.abort()


CASES: Mapping[str, CaseBuilder] = {"twice": twice, "impossible": impossible, "deadly": deadly}


def over_at(monkeypatch: pytest.MonkeyPatch, log: Path, name: str) -> None:
    """Whatever runs has had its time once `log` says that the candidate `name` runs, which hangs.

    At the second look that finds it: the first may be the one from which that time counts.
    """
    found = list[str]()

    def late() -> float:
        seconds = time.monotonic() + 2 * LONG * bool(found)
        if not found and log.exists():
            found.extend(one for one in log.read_text().split() if one == name)
        return seconds

    monkeypatch.setattr("metal.trial_runner.monotonic", late)
