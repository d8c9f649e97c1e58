"""What the open window costs the engine: decode speed while an answer streams into it, and without."""

from __future__ import annotations

import json
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from app.measure.child import MeasureFailed, run_child
from app.measure.fixed_length import QUESTION, FixedLength
from engine import Event, Failed, Finished, Generate, LoadModel, Message, ModelReady

TARGET = 0.97
PAIRS = 7
TOKENS = 256


@dataclass(frozen=True, slots=True)
class DecodeRatio:
    """Tokens a second of each pair of runs, the two sides taking turns in going first."""

    headless: tuple[float, ...]
    window: tuple[float, ...]

    @property
    def ratios(self) -> tuple[float, ...]:
        """With the window ÷ without, pair by pair."""
        return tuple(w / h for w, h in zip(self.window, self.headless, strict=True))

    @property
    def median(self) -> float:
        """The median ratio."""
        return statistics.median(self.ratios)


def measure_decode_ratio(model: Path, pairs: int = PAIRS, tokens: int = TOKENS) -> DecodeRatio:
    """Decode the same `tokens` tokens in turns with and without the window. Raises MeasureFailed."""
    found = run_child("app.measure.decode_ratio", str(model), str(pairs), str(tokens))
    return DecodeRatio(tuple(found["headless"]), tuple(found["window"]))


class _Headless:
    """An engine whose events nobody looks at but to see the end."""

    def __init__(self, tokens: int) -> None:
        self._events: SimpleQueue[Event] = SimpleQueue()
        self.engine = FixedLength(self._events.put, tokens)
        self._runs = 0

    def load(self, model: str) -> None:
        """Load and wait."""
        self.engine.start()
        self.engine.submit(LoadModel("load", model))
        self._end()

    def decode_tps(self) -> float:
        """One answer's speed. The calling thread sleeps meanwhile."""
        self._runs += 1
        self.engine.submit(Generate(f"run {self._runs}", messages=(Message("user", QUESTION),)))
        end = self._end()
        assert isinstance(end, Finished)
        return end.timing.decode_tps

    def _end(self) -> Event:
        while True:
            event = self._events.get()
            if isinstance(event, Failed):
                raise MeasureFailed(event.error)
            if isinstance(event, Finished | ModelReady):
                return event


def _child(model: str, pairs: int, tokens: int) -> None:
    from app.application import make_application
    from app.paths import default_paths
    from app.wiring import Desktop

    application = make_application()
    desktop = Desktop(application, lambda emit: FixedLength(emit, tokens), default_paths())
    headless = _Headless(tokens)
    headless.load(model)
    desktop.models.state_changed.connect(
        lambda state: state.phase in ("ready", "failed") and application.exit()
    )
    # exit() and not quit(), which would close the window
    desktop.conversation.state_changed.connect(lambda state: state.busy or application.exit())
    desktop.start(Path(model))
    application.exec()

    def in_window() -> float:
        desktop.conversation.new_chat()
        if not desktop.conversation.send(QUESTION):
            raise MeasureFailed(f"the window cannot send: {desktop.models.state.error or 'no model'}")
        application.exec()
        if not desktop.window.isVisible():
            raise MeasureFailed("the window was closed while it was measured; leave it open")
        return desktop.conversation.messages[-1].decode_tps

    in_window()  # the first runs warm up
    headless.decode_tps()
    with_window: list[float] = []
    without: list[float] = []
    for number in range(pairs):
        if number % 2:
            with_window.append(in_window())
            without.append(headless.decode_tps())
        else:
            without.append(headless.decode_tps())
            with_window.append(in_window())
    desktop.close()
    headless.engine.close()
    print(json.dumps({"headless": without, "window": with_window}))


if __name__ == "__main__":
    _child(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
