"""Two models that do not fit at once, in the window: a chat of one waits for the answer of the other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Event as Moment

from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from app.model_location import GUIDE, model_title
from app.text import RESTING_ASKED
from app.wiring import Desktop
from engine import Engine, EngineSettings, Event, LetRest, ModelUnloaded, TextChunk, Waiting, inspect_model
from tests.app.conftest import OpenDesktop
from tests.fakes.random_model import write_random_model


def opened(qtbot: QtBot, desktop: Desktop, model: Path) -> None:
    desktop.models.open(str(model))
    qtbot.waitUntil(lambda: desktop.models.state.phase == "ready" and desktop.models.state.path == str(model))


def shown(desktop: Desktop) -> list[str]:
    """What stands in the chat."""
    return [label.text() for label in desktop.pane.transcript.findChildren(QLabel) if label.isVisible()]


def test_it_says_so_and_both_answers_are_whole(
    open_desktop: OpenDesktop, qtbot: QtBot, tmp_path: Path
) -> None:
    resting = write_random_model(tmp_path / "other")
    one = max(
        model.kv_bytes_per_token * model.context_length for model in map(inspect_model, (GUIDE, resting))
    )
    gone, waiting = list[ModelUnloaded](), list[Waiting]()
    may_go_on, is_seen = Moment(), Moment()  # the engine's thread stands still until then

    def make(emit: Callable[[Event], None]) -> Engine:
        def note(event: Event) -> None:
            if isinstance(event, ModelUnloaded):
                gone.append(event)
            emit(event)
            if isinstance(event, TextChunk):
                assert may_go_on.wait(30)
            if isinstance(event, Waiting):
                waiting.append(event)
                assert is_seen.wait(30)

        return Engine(note, EngineSettings(kv_bytes=one, unload_after=0.2))

    desktop = open_desktop(make, None, tmp_path / "home", wait=False)
    chat = desktop.conversation
    opened(qtbot, desktop, resting)
    qtbot.waitUntil(lambda: desktop.models.state.phase == "resting")
    desktop.engine.submit(LetRest(None))
    opened(qtbot, desktop, GUIDE)
    assert chat.send("What is a page?")
    qtbot.waitUntil(lambda: chat.state.phase == "streaming")
    first = chat.chat
    assert first is not None
    chat.new_chat()
    desktop.models.choose(str(resting))
    assert chat.send("Are you there?")
    may_go_on.set()
    qtbot.waitUntil(lambda: waiting != [])
    qtbot.waitUntil(lambda: f"Waiting: {waiting[0].why}" in shown(desktop))
    assert waiting[0].why == f"other has no room beside the answer that {model_title(GUIDE)} is writing"
    assert desktop.pane.status_line.words == RESTING_ASKED.format(name="other")
    is_seen.set()
    qtbot.waitUntil(lambda: not chat.state.busy, timeout=60_000)
    assert chat.messages[-1].status in ("complete", "length")
    assert [(event.path, event.reason) for event in gone] == [(str(resting), "idle"), (str(GUIDE), "idle")]
    chat.open(first)
    qtbot.waitUntil(lambda: chat.chat == first)
    assert chat.messages[-1].status == "complete"
    assert chat.can_send  # its model rests, and comes back
