"""A trial process that takes its candidates at their word: `python -m tests.metal.clocked_trial`.

What those of `trial_provider` take a clock of their own tells: another process may keep the machine busy for
longer than a chain.
"""

from __future__ import annotations

from functools import partial

from metal import trial
from metal.trial_timing import time_candidates
from tests.metal.trial_provider import clock

if __name__ == "__main__":
    trial.time_candidates = partial(time_candidates, clock=clock)
    trial.main()
