"""The process behind app.measure.dashboard_cost: a client's answers with each pane on show, and with none.

python -m app.measure.dashboard_rounds MODEL ROUNDS TOKENS [PANE …]
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication

from app.application import make_application
from app.dashboard.dashboard_page import PANES, DashboardPage
from app.measure.child import MeasureFailed
from app.measure.dashboard_cost import CLOSED
from app.measure.fixed_length import QUESTION, FixedLength
from app.paths import default_paths
from app.wiring import Desktop
from engine import Event, Failed, Finished, Generate, Message

IDLE_SECONDS = 3.0
SETTLE_SECONDS = 3.0
SHOW_SECONDS = 0.3
OPEN_SECONDS = 60.0


class Client:
    """Asks the engine of a window past its chats."""

    def __init__(self, application: QApplication, tokens: int) -> None:
        self._application = application
        self._ends: list[Finished | Failed] = []
        self._asked = 0
        self.desktop = Desktop(
            application, lambda emit: FixedLength(self._heard(emit), tokens), default_paths()
        )

    def open(self, model: Path) -> DashboardPage:
        """Open the window with the model, and then the dashboard."""
        self.desktop.models.state_changed.connect(
            lambda state: state.phase in ("ready", "failed") and self._application.exit()
        )
        self.desktop.start(model)
        self._application.exec()
        self.desktop.dashboard.toggle()
        until = time.monotonic() + OPEN_SECONDS
        while time.monotonic() < until:
            self.rest(0.1)
            desk = self.desktop.dashboard.desk
            if desk is not None and desk.page.is_whole:
                return desk.page
        raise MeasureFailed(f"the dashboard was not open after {OPEN_SECONDS:.0f} s; end other programs")

    def answer(self) -> tuple[float, float]:
        """Tokens a second of an answer, and the share of a core that this thread took meanwhile."""
        self._asked += 1
        began, busy = time.perf_counter(), time.thread_time()
        self.desktop.engine.submit(Generate(f"run {self._asked}", messages=(Message("user", QUESTION),)))
        self._application.exec()
        share = (time.thread_time() - busy) / (time.perf_counter() - began)
        end = self._ends.pop()
        if isinstance(end, Failed):
            raise MeasureFailed(end.error)
        if not self.desktop.window.isVisible():
            raise MeasureFailed("the window was closed while it was measured; leave it open")
        return end.timing.decode_tps, share

    def rest(self, seconds: float) -> float:
        """Ask nothing for so long; returns the share of a core that the process takes."""
        began, busy = time.perf_counter(), time.process_time()
        QTimer.singleShot(round(1000 * seconds), self._application.exit)
        self._application.exec()
        return (time.process_time() - busy) / (time.perf_counter() - began)

    def _heard(self, emit: Callable[[Event], None]) -> Callable[[Event], None]:
        def both(event: Event) -> None:
            emit(event)
            if isinstance(event, Finished | Failed):
                self._ends.append(event)
                self.desktop.queue.post(self._application.exit)  # quit() would close the window

        return both


def _show(client: Client, page: DashboardPage, side: str) -> None:
    if side == CLOSED:
        client.desktop.window.show_chat()
    else:
        client.desktop.window.show_page(page)
        page.show_tab(side)


def _rounds(
    client: Client, page: DashboardPage, rounds: int, sides: Sequence[str]
) -> dict[str, dict[str, list[float]]]:
    """Every side in turn, another one first in each round, after a round that warms up."""
    decode: dict[str, list[float]] = {side: [] for side in sides}
    busy: dict[str, list[float]] = {side: [] for side in sides}
    for number in range(rounds + 1):
        first = number % len(sides)
        for side in (*sides[first:], *sides[:first]):
            _show(client, page, side)
            client.rest(SHOW_SECONDS)  # what showing it takes is not what looking at it does
            speed, share = client.answer()
            if number:
                decode[side].append(speed)
                busy[side].append(share)
    return {"decode": decode, "busy": busy}


def _idle(client: Client, page: DashboardPage, rounds: int) -> list[float]:
    """The process at rest, with one pane after the other."""
    found: list[float] = []
    for number in range(rounds):
        _show(client, page, PANES[number % len(PANES)])
        client.rest(SETTLE_SECONDS)
        found.append(client.rest(IDLE_SECONDS))
    return found


def _child(model: str, rounds: int, tokens: int, panes: Sequence[str]) -> None:
    client = Client(make_application(), tokens)
    page = client.open(Path(model))
    found = {**_rounds(client, page, rounds, (CLOSED, *panes)), "idle": _idle(client, page, min(rounds, 7))}
    client.desktop.close()
    print(json.dumps(found))


if __name__ == "__main__":
    _child(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:] or PANES)
