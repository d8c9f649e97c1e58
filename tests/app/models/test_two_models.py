"""Two models at once, through the window: real engine, the guide, and a small random model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from app import text
from app.model_location import GUIDE
from app.wiring import Desktop
from engine import Engine, EngineSettings, Event, LoadProgress, ModelUnloaded
from tests.app.conftest import OpenDesktop
from tests.app.models.conftest import OpenScene, Scene
from tests.fakes.random_model import write_random_model


@pytest.fixture
def other(tmp_path: Path) -> Path:
    return write_random_model(tmp_path / "mine" / "other")


class Heard:
    """The window's engine, and every event that it emitted."""

    def __init__(self, open_desktop: OpenDesktop, settings: EngineSettings, home: Path) -> None:
        self.events: list[Event] = []

        def make(emit: Callable[[Event], None]) -> Engine:
            return Engine(self._hear(emit), settings)

        self.desktop: Desktop = open_desktop(make, GUIDE, home)

    def _hear(self, emit: Callable[[Event], None]) -> Callable[[Event], None]:
        def heard(event: Event) -> None:
            self.events.append(event)
            emit(event)

        return heard

    def of(self, kind: type[Event]) -> list[Event]:
        """The events of a kind, so far."""
        return [event for event in self.events if isinstance(event, kind)]


def press(scene: Scene, name: str) -> None:
    """Press the button of a model in the list."""
    view = scene.page.library.list
    menu = view.menu_for(view.rows.index(view.names().index(name)))
    menu.actions()[0].trigger()


def ask(scene: Scene, question: str) -> str:
    """Ask in the chat on show, and return the model that answered."""
    conversation = scene.desktop.conversation
    assert conversation.send(question)
    scene.wait(lambda: not conversation.state.busy)
    assert conversation.messages[-1].status in ("complete", "length"), conversation.messages[-1].error
    return conversation.messages[-1].model


def test_each_chat_stays_with_its_model(
    open_desktop: OpenDesktop, open_scene: OpenScene, tmp_path: Path, other: Path
) -> None:
    heard = Heard(open_desktop, EngineSettings(kv_bytes=64 << 20, context=256), tmp_path / "home")
    desktop, button = heard.desktop, heard.desktop.pane.model_button
    scene = open_scene(desktop)
    assert ask(scene, "What is a page?") == str(GUIDE)
    first = desktop.conversation.chat
    answer = desktop.conversation.messages[-1].text

    scene.desk.library.take_in(str(other))
    scene.wait(lambda: "other" in scene.labels())
    desktop.conversation.new_chat()
    press(scene, "other")
    scene.wait(lambda: scene.labels() == {"guide": "Loaded", "other": "Loaded"})
    assert button.text() == "other"
    assert ask(scene, "Say something.") == str(other)
    second = desktop.conversation.chat
    assert first
    assert second

    seen = len(heard.of(LoadProgress))
    desktop.conversation.open(first)
    scene.wait(lambda: button.text() == text.GUIDE_NAME)
    scene.wait(lambda: desktop.pane.status_line.words.startswith(text.GUIDE_NAME))
    desktop.conversation.new_chat()
    assert ask(scene, "What is a page?") == str(GUIDE)
    assert desktop.conversation.messages[-1].text == answer
    button.chosen.emit(str(other))  # as its menu does
    assert desktop.models.state.phase == "ready"
    third = desktop.conversation.chat
    desktop.conversation.open(first)
    scene.wait(lambda: button.text() == text.GUIDE_NAME)
    assert third
    desktop.conversation.open(third)
    scene.wait(lambda: button.text() == "other")
    assert len(heard.of(LoadProgress)) == seen, "nothing was loaded anew"

    press(scene, "other")
    scene.wait(lambda: scene.labels() == {"guide": "Loaded", "other": "Fits"})
    assert button.text() == text.GUIDE_NAME
    assert heard.of(ModelUnloaded) == [ModelUnloaded(str(other), "asked")]
    desktop.conversation.new_chat()
    assert ask(scene, "Who are you?") == str(GUIDE)


def test_one_that_had_to_make_room_is_told_of(
    open_desktop: OpenDesktop, open_scene: OpenScene, tmp_path: Path, other: Path
) -> None:
    heard = Heard(open_desktop, EngineSettings(kv_bytes=1 << 20), tmp_path / "home")
    scene = open_scene(heard.desktop)
    scene.desk.library.take_in(str(other))
    scene.wait(lambda: "other" in scene.labels())
    press(scene, "other")
    scene.wait(lambda: scene.labels()["other"] == "Loaded")
    assert heard.of(ModelUnloaded) == [ModelUnloaded(str(GUIDE), "room")]
    assert scene.labels()["guide"] == "Fits"
    scene.wait(lambda: scene.page.toast.text == "other is loaded; Guide was unloaded to make room")
