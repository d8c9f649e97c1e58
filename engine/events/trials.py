"""What the engine tells of trials of kernels, which it makes while nothing is asked of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KernelTrials:
    """How far the trials for a model are: told when they begin, after each operation, and when they stop.

    Any command stops them, a request above all; they go on when nothing has been asked for a moment.

    Attributes:
        model: its path.
        done, total: operations that have their verdict, of those that had none when the model was loaded.
        is_running: whether one is tried now; else they wait, are put off (PutOffTrials), or are over.
        are_put_off: whether somebody wants them later.
        seconds_left: about how long the rest takes; None while that is not known.
        problem: why they cannot be made, "" where they can.
    """

    model: str
    done: int
    total: int
    is_running: bool
    are_put_off: bool = False
    seconds_left: float | None = None
    problem: str = ""
