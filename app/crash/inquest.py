"""How a run of the window ended, from what it left behind: a crash, or one of the many ends that are none."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from app.crash import crash_words as words
from app.crash.last_words import read_last_words
from app.crash.marker import Marker, read_marker

MARKER = "marker.json"
STACKS = "stacks.txt"
SIGNALS = "signals.bin"
OUTPUT = "output.txt"
NOTES = "doing.bin"
FAILURE = "failure.txt"
"""Files of a run: its mark, what a fatal signal found, signals that asked it to end, what was printed where
nobody reads it, the engine's diary, the exception that ended it."""

EXCEPTION, CLOSING, DONE = "exception", "closing", "done"
"""What `Marker.ending` may be."""

MOST_READ = 400_000
"""Bytes of each file that are looked at: the beginning of stacks, the end of what was printed."""

How = Literal["fatal signal", "exception", "killed", "failure"]


@dataclass(frozen=True, slots=True)
class Ending:
    """An end that nobody asked for; with `how` "failure" a part alone that broke, and the run went on.

    Attributes:
        what: in a sentence, for people.
        stacks: of the threads, or the traceback; "" where nothing could be told any more.
        doing: the diary's last note.
        output: the end of what was printed.
        may_be_wanted: whether somebody may just have ended it, and nothing speaks of a fault.
    """

    how: How
    what: str
    marker: Marker
    stacks: str = ""
    doing: dict[str, Any] = field(default_factory=dict[str, Any])
    output: str = ""
    may_be_wanted: bool = False

    @property
    def is_early(self) -> bool:
        """Whether the run had only just begun."""
        return self.how != "failure" and not self.marker.is_calm


@dataclass(frozen=True, slots=True)
class Inquest:
    """How a run ended, None where that is no crash; and how many in a row crashed early, it among them."""

    ending: Ending | None
    early_crashes: int


def inquire(left: Path, boot: str, memory_kills: int | None) -> Inquest:
    """Look at what a run left in the folder `left`; `boot` and `memory_kills` are as now (app/crash/boot.py).

    Of a run before the machine was started again nothing is known but a signal's or an exception's own words:
    it was switched off, or lost its power. The crashes before that still count.
    """
    marker = read_marker(left / MARKER)
    if marker is None:
        return Inquest(None, 0)
    stacks, failure = _beginning(left / STACKS), _beginning(left / FAILURE)
    doing = read_last_words(left / NOTES)
    output = _end(left / OUTPUT)
    if stacks:
        closing = bool(marker.ending)
        return _crash(Ending("fatal signal", words.fatal(stacks, closing), marker, stacks, doing, output))
    if failure:
        return _crash(Ending("exception", words.ENDED_BY_EXCEPTION, marker, failure, doing, output))
    if marker.ending == DONE:
        return Inquest(None, 0)
    if boot and marker.boot and boot != marker.boot:
        return Inquest(None, marker.early_crashes)
    if marker.ending or _beginning(left / SIGNALS):
        return Inquest(None, 0)
    has_killed = None not in (memory_kills, marker.memory_kills) and memory_kills != marker.memory_kills
    is_short = bool((doing.get("steps") or {}).get("is_short"))
    what, may_be_wanted = words.killed(has_killed, is_short), not (has_killed or is_short)
    return _crash(Ending("killed", what, marker, "", doing, output, may_be_wanted))


def _crash(ending: Ending) -> Inquest:
    counts = ending.is_early and ending.marker.ending in ("", EXCEPTION)
    return Inquest(ending, ending.marker.early_crashes + 1 if counts else 0)


def _beginning(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(MOST_READ).decode("utf-8", "replace").strip()
    except OSError:
        return ""


def _end(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - MOST_READ))
            return file.read(MOST_READ).decode("utf-8", "replace").strip()
    except OSError:
        return ""
