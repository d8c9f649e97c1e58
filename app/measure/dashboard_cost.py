"""What the open dashboard costs: decode speed and the window's thread with each pane open and with none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from app.measure.child import run_child

TARGET = 0.99
BUSY_TARGET = 0.01
IDLE_TARGET = 0.03
TOKENS = 256
PATIENCE = 900.0
"""Seconds for all rounds."""

CLOSED = ""
"""The side on which the chats are on show."""


@dataclass(frozen=True, slots=True)
class DashboardCost:
    """What each round measured, by pane; CLOSED is the dashboard closed.

    Attributes:
        decode: tokens a second.
        busy: processor time of the window's thread, as a share of the time that went by.
        idle: that of the whole process with the dashboard open and nothing asked, a pane after the other.
    """

    decode: Mapping[str, tuple[float, ...]]
    busy: Mapping[str, tuple[float, ...]]
    idle: tuple[float, ...]

    @property
    def panes(self) -> tuple[str, ...]:
        """The panes, in the order of their tabs."""
        return tuple(name for name in self.decode if name != CLOSED)

    def ratios(self, pane: str) -> tuple[float, ...]:
        """Decode speed with the pane open ÷ with the dashboard closed, round by round."""
        pairs = zip(self.decode[pane], self.decode[CLOSED], strict=True)
        return tuple(shown / closed for shown, closed in pairs)

    def more_busy(self, pane: str) -> tuple[float, ...]:
        """What the pane takes of a core on the window's thread beyond what it takes closed."""
        return tuple(shown - closed for shown, closed in zip(self.busy[pane], self.busy[CLOSED], strict=True))


def measure_dashboard_cost(model: Path, rounds: int, tokens: int = TOKENS) -> DashboardCost:
    """Decode `tokens` tokens for a client with each pane open and with none, in turns, then rest.

    The answers are no chat's: nothing but the dashboard and the line at the window's foot tells of them.
    Raises MeasureFailed.
    """
    arguments = (str(model), str(rounds), str(tokens))
    found = run_child("app.measure.dashboard_rounds", *arguments, patience=PATIENCE)
    decode = {name: tuple(values) for name, values in found["decode"].items()}
    busy = {name: tuple(values) for name, values in found["busy"].items()}
    return DashboardCost(decode, busy, tuple(found["idle"]))
