"""Why nothing is written to the SSD cache at present, in words, and when that is tried again."""

from __future__ import annotations

import errno
import logging
import math
import time
from pathlib import Path

log = logging.getLogger(__name__)

AGAIN_S = 30.0
"""Seconds after a write that failed until the next one is tried."""

LONG_S = 6.0
"""Seconds for which a folder may go on being held by others before that is a problem."""

_IN_THE_WAY = (errno.ENOTDIR, errno.EEXIST, errno.EISDIR, errno.ENOTEMPTY)
"""Something else has the name that a file or a folder of the cache is to have."""

_WAYS_OUT = {
    errno.ENOSPC: "make room on its disk, and saving goes on",
    errno.EDQUOT: "make room on its disk, and saving goes on",
    errno.EROFS: "make its disk writable, and saving goes on",
    errno.EACCES: "let your account write there, and saving goes on",
    errno.EPERM: "let your account write there, and saving goes on",
    **dict.fromkeys(_IN_THE_WAY, "move it away, and saving goes on"),
    errno.ENOENT: "it is made again when a model is loaded",
}
_OTHERWISE = "saving goes on when its disk takes a file again"


class SsdProblem:
    """What keeps the cache in `folder` from being written. It is there until a write works.

    A folder that others hold for a moment is none. Not thread-safe, but `reason` and `may_try` may be read by
    any thread.

    Attributes:
        reason: in words, with what to do; "" where there is no problem.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._again = 0.0
        self._held_since: float | None = None
        self._is_held_long = False
        self.reason = ""

    @property
    def may_try(self) -> bool:
        """Whether a write may be tried now."""
        return not self.reason or time.monotonic() >= self._again

    def failed(self, error: OSError) -> None:
        """A write ended with `error`."""
        way_out = _WAYS_OUT.get(error.errno or 0, _OTHERWISE)
        named = error.filename2 or error.filename
        where = named if named and error.errno in _IN_THE_WAY else self._folder
        self._held_since, self._is_held_long = None, False
        self._is(f"{where} cannot be written ({error.strerror or error}); {way_out}")

    def was_held(self) -> None:
        """Others held the folder's lock for as long as a write waits for it."""
        now = time.monotonic()
        if self._held_since is None:
            self._held_since = now
        self._again = now + AGAIN_S
        if now - self._held_since >= LONG_S:
            self._is_held_long = True
            self._is(f"another program has held {self._folder} for long; saving goes on when it lets go")

    def broke(self, error: Exception) -> None:
        """A mistake of ours ended a write: none is tried any more."""
        self._is(f"an internal error ({error!r}); saving goes on when the model is loaded again")
        self._again = math.inf

    def went_well(self, is_written: bool) -> None:
        """Nothing kept a run from being written, and it is unless it had no room or was no longer wanted."""
        if self.reason and (is_written or self._is_held_long):
            self.reason = ""
            log.info("pages are saved to SSD again")
        self._held_since, self._is_held_long = None, False

    def _is(self, reason: str) -> None:
        self._again = time.monotonic() + AGAIN_S
        if reason != self.reason:
            self.reason = reason
            log.warning("pages are not saved to SSD: %s", reason)
