"""The race check against a plain definition of a race, over random little programs."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import mlx.core as mx
import numpy as np

from metal.emulator import Emulator, Mode
from metal.errors import KernelRefused
from metal.executors import EmulatedExecutor, Output

STEPS, THREADS, GROUPS = 4, 64, 2
DEVICE, THREADGROUP = 1, 2
# What a barrier of each number orders, for the whole threadgroup or for a simdgroup.
WHOLE = {1: THREADGROUP, 2: DEVICE, 3: DEVICE | THREADGROUP}
SIMDGROUP = {4: THREADGROUP, 5: DEVICE}


@dataclass(frozen=True, slots=True)
class Touch:
    """One access of a program. `phase` and `sub_phase` count the barriers for its memory that came before."""

    group: int
    thread: int
    space: int
    element: int
    write: bool
    phase: int
    sub_phase: int


def touches(steps: np.ndarray, barriers: np.ndarray) -> list[Touch]:
    found: list[Touch] = []
    for group, step, thread in itertools.product(range(GROUPS), range(STEPS), range(THREADS)):
        what = int(steps[group, step, thread])
        if what >= 0:
            space = DEVICE if what & 2 else THREADGROUP
            before = [int(barrier) for barrier in barriers[:step]]
            phase = sum(bool(WHOLE.get(barrier, 0) & space) for barrier in before)
            sub_phase = sum(bool(SIMDGROUP.get(barrier, 0) & space) for barrier in before)
            found.append(Touch(group, thread, space, what >> 2, bool(what & 1), phase, sub_phase))
    return found


def race(a: Touch, b: Touch) -> bool:
    if a.space != b.space or a.element != b.element or not (a.write or b.write):
        return False
    if a.group != b.group:
        return a.space == DEVICE
    if a.thread == b.thread or a.phase != b.phase:
        return False
    return a.thread // 32 != b.thread // 32 or a.sub_phase == b.sub_phase


def random_program(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A few accesses in all: about half of such programs have a race."""
    random = np.random.default_rng(seed)
    # Every second program crowds and mostly reads: a write must then be held against all its readers.
    kinds, elements, most = ([0, 0, 0, 1, 2, 2, 2, 3], 2, 14) if seed % 2 else ([0, 1, 2, 3], 3, 9)
    steps = np.full((GROUPS, STEPS, THREADS), -1, np.int32)
    for _ in range(random.integers(2, most)):
        group, step = random.integers(GROUPS), random.integers(STEPS)
        thread = random.choice([0, 1, 2, 31, 32, 33, 63])
        steps[group, step, thread] = random.integers(elements) << 2 | random.choice(kinds)
    return steps, random.integers(0, 6, STEPS).astype(np.int32)


def test_a_race_is_refused_and_nothing_else(kernel_cache: Path, launch_body: Callable[..., object]) -> None:
    verdicts: set[bool] = set()
    for seed in range(300):
        steps, barriers = random_program(seed)
        expected = any(race(a, b) for a, b in itertools.combinations(touches(steps, barriers), 2))
        found = False
        try:
            launch_body(
                "script",
                EmulatedExecutor(Emulator(kernel_cache, Mode.CHECKED, seed)),
                {
                    "steps": mx.array(steps),
                    "barriers": mx.array(np.pad(barriers, (0, 8 - STEPS))),
                    "pool": mx.zeros(8),
                },
                {"y": Output((GROUPS * THREADS,), mx.float32)},
                grid=(GROUPS * THREADS, 1, 1),
                threadgroup=(THREADS, 1, 1),
                template={"STEPS": STEPS},
                in_place=("pool",),
            )
        except KernelRefused as refusal:
            found = "race on" in str(refusal)
        assert found == expected, f"program {seed}"
        verdicts.add(found)
    assert verdicts == {True, False}
