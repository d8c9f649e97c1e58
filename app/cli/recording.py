"""What the terminal asks of its own engine goes into the history too."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

from app.engine_like import MakeEngine, OnEvent
from app.event_inbox import in_turn
from app.history.recorder import Recorder
from app.history.worker import HistoryWorker
from app.paths import Paths
from engine import Command

CLOSE_SECONDS = 5.0


class Recorded:
    """An engine whose requests a recorder sees."""

    def __init__(self, make_engine: MakeEngine, emit: OnEvent, recorder: Recorder) -> None:
        self._engine = make_engine(in_turn(recorder.take, emit))
        self._submit = recorder.passing(self._engine.submit)

    def start(self) -> None:
        """Start the engine's thread."""
        self._engine.start()

    def submit(self, command: Command) -> None:
        """Queue a command; never blocks."""
        self._submit(command)

    def close(self, timeout: float | None = None) -> bool:
        """Shut down and join. Returns whether it ended in time."""
        return self._engine.close(timeout)


@contextmanager
def recording(
    paths: Paths, client: str, kv_bits: int | None, note: Callable[[str], None]
) -> Generator[Recorder]:
    """Within the block, a recorder whose records are on disk when it ends; `note` says what is wrong."""
    problems: list[str] = []
    worker = HistoryWorker(paths.history, lambda call: call(), problems.append)
    worker.start()
    try:
        yield Recorder(worker.save, client, kv_bits)
    finally:
        worker.close(CLOSE_SECONDS)
        if problems and problems[-1]:  # what was over before the end is nobody's concern
            note(problems[-1])
