"""A trial process whose candidates only act: `python -m tests.engine.acting_trial`.

The environment variable MLXR_ACTS says how, in JSON: by an op ("matvec", "attention set") what its kernels
do, "fast", "wrong", "abort" or "sleep"; others are slow. What they take a clock of their own tells: another
process may keep the machine busy for longer than a chain.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import mlx.core as mx

from engine.kernels import attention_set
from metal import candidates, trial
from metal.executors import Executor
from metal.trial_case import Case, CaseBuilder, Params
from metal.trial_timing import time_candidates

_clock = [0.0]
_ACTS: Mapping[str, str] = json.loads(os.environ["MLXR_ACTS"])


class ActingCase:
    """The key and the candidates of a real case."""

    counts_host = False

    def __init__(self, real: Case, act: str) -> None:
        self.key, self.spec, self.contenders = real.key, real.spec, real.contenders
        self.tolerance = real.tolerance
        self._builtin, self._act = real.contenders[0].name, act

    def error(self, name: str) -> float:
        if name == self._builtin:
            return 0.0
        if self._act == "abort":
            os.abort()
        if self._act == "sleep":
            time.sleep(600)
        return 1.0 if self._act == "wrong" else 0.0

    def chain(self, name: str, links: int) -> Sequence[mx.array]:
        takes = {"fast": 0.0001, "slow": 0.002}[self._act] if name != self._builtin else 0.0005
        _clock[0] += links * takes
        return []


def _acting(op: str, build: CaseBuilder) -> Callable[[Params, Executor], Case]:
    return lambda params, executor: ActingCase(build(params, executor), _ACTS.get(op, "slow"))


if __name__ == "__main__":
    attention_set.CASES = {op: _acting(op, build) for op, build in attention_set.CASES.items()}
    candidates.CASES = {op: _acting(op, build) for op, build in candidates.CASES.items()}
    trial.time_candidates = partial(time_candidates, clock=lambda: _clock[0])
    trial.main()
