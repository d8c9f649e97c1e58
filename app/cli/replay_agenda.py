"""When each step of a replay is due: by the clock, or by the end of another step."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable

from app.cli.replay_file import Step


class Agenda:
    """The steps that have not begun. Times are seconds from the start, given by the caller."""

    def __init__(self, steps: Iterable[Step]) -> None:
        timed: list[Step] = []
        self._left = 0
        self._after: defaultdict[str, list[Step]] = defaultdict(list)
        for step in steps:
            self._left += 1
            if step.after is None:
                timed.append(step)
            else:
                self._after[step.after].append(step)
        self._timed = deque(
            sorted(timed, key=lambda step: step.at)
        )  # stable: the file's order within a moment
        self._ready: deque[Step] = deque()

    def __len__(self) -> int:
        """Steps that have not begun."""
        return self._left

    def due(self, now: float) -> Step | None:
        """The next step that may begin, which is taken off; None while there is none."""
        if self._ready:
            waiting = self._ready
        elif self._timed and self._timed[0].at <= now:
            waiting = self._timed
        else:
            return None
        self._left -= 1
        return waiting.popleft()

    def seconds_left(self, now: float) -> float | None:
        """Until the clock makes a step due; None when only the end of another can."""
        return max(0.0, self._timed[0].at - now) if self._timed else None

    def ended(self, step_id: str) -> None:
        """The steps that waited for `step_id` are due."""
        self._ready.extend(self._after.pop(step_id, ()))

    def clear(self) -> int:
        """Nothing begins any more. Returns how many steps that leaves out."""
        left, self._left = self._left, 0
        self._timed.clear()
        self._ready.clear()
        self._after.clear()
        return left
