"""What a step took, where the next one is built before it is read."""

from __future__ import annotations

from dataclasses import dataclass

_AT_ONCE = 0.125
"""Share of the next step's building within which reading a step means that it was done before."""

_LONGER = 1.5
"""How much longer than its own building that of the next step must be to hide what a step took."""


@dataclass(frozen=True, slots=True)
class Sending:
    """When the host began to build a step, and when it had sent it, in seconds of one clock."""

    began: float
    ended: float

    @property
    def seconds(self) -> float:
        """What building and sending took."""
        return self.ended - self.began


@dataclass(frozen=True, slots=True)
class Reading:
    """When the host began to wait for a step, and when it had its results."""

    began: float
    ended: float


def step_seconds(sent: Sending, read: Reading, last_read: float, following: Sending | None) -> float | None:
    """Seconds of a step that was read, from the end of the one before it; None where nobody can know.

    Host and device work at the same time, and the slower of them is what a step costs. Where that is the
    host, which found the step done, its share is building it and all else that is done between two readings,
    such as telling of tokens; building the next step counts for that one. No step takes less than building
    it did, also where nothing was left to wait for.

    Args:
        sent, read: of the step.
        last_read: when the step before it was read.
        following: of the step that was sent between the two, if one was.
    """
    seconds = read.ended - max(sent.began, last_read)
    if following is not None and read.ended - read.began < _AT_ONCE * following.seconds:
        if following.seconds > _LONGER * sent.seconds:
            return None  # it was done at some time while the next was built
        seconds -= following.seconds
        if sent.ended <= last_read:
            seconds += sent.seconds
    return max(seconds, sent.seconds)
