"""How far a benchmark is, from the lines that `mlxr bench --progress` tells."""

from __future__ import annotations

import re

_PAIR = re.compile(r"(?P<what>.+): pair (?P<number>\d+) of (?P<pairs>\d+)")


class BenchProgress:
    """Counts quantities and their pairs; a line that tells of none changes nothing."""

    def __init__(self, quantities: int) -> None:
        """`quantities`: how many are measured, one after the other."""
        self._quantities = quantities
        self._known: list[str] = []
        self.share: float | None = None
        """What is done, from 0 to 1; None before anything is measured. It never falls."""

    def hear(self, line: str) -> None:
        """Take in a line: pair 0 is the one that does not count, and all are told as they begin."""
        found = _PAIR.fullmatch(line)
        if found is None:
            return
        if found["what"] not in self._known:
            self._known.append(found["what"])
        done = len(self._known) - 1 + int(found["number"]) / (int(found["pairs"]) + 1)
        self.share = max(self.share or 0.0, min(1.0, done / self._quantities))
