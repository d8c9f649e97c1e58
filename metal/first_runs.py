"""Kernels that run in a program's own process for the first times, and what is held against them.

A trial in a process of its own has proven each of them. What a model makes of them together, with its own
buffers, is new still. So while they run for the first times their digests lie in a locked file; a file that
is there and not locked is of a process that ended. Once may be chance; twice disables them.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
from collections import Counter
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

log = logging.getLogger(__name__)

ENOUGH_STEPS = 64
"""Steps read without harm after which kernels are held to be sound."""

MOST_ENDS = 2
"""Processes that may end while a kernel runs for its first times, until it is disabled."""

REASON = f"MLXR ended {MOST_ENDS} times while it ran for the first times in the app"
_FOLDER, _KNOWN, _SUFFIX = "first-runs", "known.json", ".marks"


class FirstRuns:
    """The first runs of one set of kernels in this process; for one thread. Cheap once they are sound.

    A folder that cannot be written is told to the log, and nothing is held against anybody.
    """

    def __init__(self, folder: Path, digests: Collection[str]) -> None:
        """`folder`: where verdicts are kept; `digests`: of the texts of the kernels that run."""
        self._folder = folder / _FOLDER
        self._new = sorted(set(digests) - set(_known(self._folder)["sound"]))
        self._path = self._folder / f"{os.getpid()}-{id(self):x}{_SUFFIX}"
        self._handle: int | None = None
        self._steps = 0

    def begin(self) -> None:
        """They may be launched from now on. On the disk when this returns."""
        if not self._new or self._handle is not None:
            return
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._handle = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._handle, fcntl.LOCK_EX)
            os.write(self._handle, json.dumps(self._new).encode())
            os.fsync(self._handle)
        except OSError as error:
            log.info("first runs of kernels cannot be marked: %s", error)
            self._new = []

    def went_well(self) -> None:
        """A step of theirs was read."""
        self._steps += 1

    def rest(self) -> None:
        """Nothing of theirs runs any more."""
        if self._handle is None:
            return
        with suppress(OSError):
            self._path.unlink()
        os.close(self._handle)
        self._handle = None
        if self._steps >= ENOUGH_STEPS:
            new, self._new = self._new, []
            with suppress(OSError):
                _found_sound(self._folder, new)


def settle(folder: Path) -> frozenset[str]:
    """Hold ended processes against the kernels that they ran; returns the digests of those to be disabled.

    `folder`: where verdicts are kept. What cannot be read or written is left as it is.
    """
    marked = folder / _FOLDER
    ended = Counter[str]()
    for path in sorted(marked.glob(f"*{_SUFFIX}")):
        with suppress(OSError), path.open("r+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue  # its process lives
            ended.update(_digests(file.read()))
            path.unlink()
    if not ended:
        return frozenset()
    known = _known(marked)
    ends = Counter[str](known["ends"]) + ended
    doomed = frozenset(digest for digest, count in ends.items() if count >= MOST_ENDS)
    with suppress(OSError):
        _write(marked, known["sound"], {digest: n for digest, n in ends.items() if digest not in doomed})
    return doomed


def _found_sound(folder: Path, digests: Collection[str]) -> None:
    known = _known(folder)
    ends = {digest: count for digest, count in known["ends"].items() if digest not in digests}
    _write(folder, sorted({*known["sound"], *digests}), ends)


def _known(folder: Path) -> dict[str, Any]:
    """The digests that are sound, and how many processes ended while others ran."""
    try:
        kept: object = json.loads((folder / _KNOWN).read_text("utf-8"))
        known = cast(dict[str, Any], kept)
        return {
            "sound": [str(digest) for digest in known["sound"]],
            "ends": {str(digest): int(count) for digest, count in known["ends"].items()},
        }
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {"sound": [], "ends": {}}


def _write(folder: Path, sound: Collection[str], ends: dict[str, int]) -> None:
    new = folder / f"{_KNOWN}.{os.getpid()}"
    new.write_text(json.dumps({"sound": list(sound), "ends": ends}), "utf-8")
    new.replace(folder / _KNOWN)


def _digests(text: str) -> list[str]:
    try:
        kept: object = json.loads(text)
    except ValueError:  # it ended before it had written
        return []
    return [str(digest) for digest in cast("list[object]", kept)] if isinstance(kept, list) else []
