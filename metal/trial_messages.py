"""What a trial's two processes say to each other: values, and their lines of JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, cast

from metal.trial_case import CaseSpec
from metal.trial_record import Status
from metal.trial_scope import ExecutorName

Event = Literal["ready", "case", "no case", "no memory", "check", "checked", "time", "times"]

_MEMORY_WORDS = (
    "out of memory",
    "outofmemory",
    "insufficient memory",
    "unable to allocate",
    "memoryallocation",
)


@dataclass(frozen=True, slots=True)
class Task:
    """One case: candidates to run for the first time, those that agreed before, whether to time them all."""

    spec: CaseSpec
    check: tuple[str, ...]
    proven: tuple[str, ...] = ()
    is_timed: bool = True


@dataclass(frozen=True, slots=True)
class Work:
    """All that a trial process is asked for.

    Attributes:
        executor, cache_folder: see `open_executor`.
        limit_s: time for one candidate, compiling included.
        tasks: the cases, in order.
    """

    executor: ExecutorName
    cache_folder: str
    limit_s: float
    tasks: tuple[Task, ...]

    def encode(self) -> str:
        """One line of JSON."""
        return json.dumps(asdict(self)) + "\n"

    @staticmethod
    def decode(line: str) -> Work:
        """Reads `encode`'s line."""
        value = cast("dict[str, Any]", json.loads(line))
        tasks = tuple(
            Task(CaseSpec(**task["spec"]), tuple(task["check"]), tuple(task["proven"]), task["is_timed"])
            for task in value["tasks"]
        )
        return Work(value["executor"], value["cache_folder"], value["limit_s"], tasks)


@dataclass(frozen=True, slots=True)
class Line:
    """What a trial process says.

    Attributes:
        event: "ready" once; "case" before a case is built, or "no case" when it cannot be; "check" before a
            candidate's first run, "checked" or "no memory" after; "time" before each chain, "times" at a
            case's end. Behind "check" and "time" the process waits for "go".
        index: the task's, from 0.
        candidate: its name.
        status: the verdict; "" where the candidate agreed.
        reason, error: see `CandidateRecord`.
        times: microseconds of a launch by candidate; empty where there was nothing to compare.
    """

    event: Event
    index: int = -1
    candidate: str = ""
    status: Status | Literal[""] = ""
    reason: str = ""
    error: float | None = None
    times: Mapping[str, float] = field(default_factory=dict[str, float])


def tells_of_memory(text: str) -> bool:
    """Whether an error's text says that memory ran out, which is nobody's fault and may pass."""
    return any(word in text.lower() for word in _MEMORY_WORDS)


def encode(line: Line) -> str:
    """One line of JSON."""
    return json.dumps(asdict(line), allow_nan=False) + "\n"


def decode(text: str) -> Line:
    """Reads `encode`'s line."""
    return Line(**cast("dict[str, Any]", json.loads(text)))
