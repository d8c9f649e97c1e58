"""A window beside a local hub, with no models of this machine in sight."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtWidgets import QMenu
from pytestqt.qtbot import QtBot

from app.models.models_page import ModelsPage
from app.models_desk import ModelsDesk
from app.wiring import Desktop
from tests.app.conftest import OpenDesktop
from tests.fakes.random_model import write_random_model
from tests.fakes.scripted_engine import ScriptedEngine
from tests.hub.fixtures import HubHome
from tests.hub.fixtures import hub_home as hub_home
from tests.hub.server import HubServer


@pytest.fixture(autouse=True)
def own_home(hub_home: HubHome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder without LM Studio, Ollama and a Hugging Face cache."""
    home = tmp_path / "user"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("OLLAMA_MODELS", raising=False)
    return home


@pytest.fixture
def hub(hub_home: HubHome) -> Iterator[HubServer]:
    """A hub without repositories; `update` adds some."""
    with HubServer() as hub:
        hub_home.connect(hub)
        yield hub


class Scene:
    """The models page of a window, looked at and used as a person would."""

    def __init__(self, desktop: Desktop, qtbot: QtBot) -> None:
        self.desktop = desktop
        self.qtbot = qtbot
        self.hub: HubServer | None = None
        desktop.models_door.toggle()
        self.wait(lambda: not desktop.window.is_chat_shown)
        self.wait(lambda: not self.desk.library.is_scanning and bool(self.desk.library.shelf.models))

    @property
    def desk(self) -> ModelsDesk:
        """What is behind the page."""
        assert self.desktop.models_door.desk
        return self.desktop.models_door.desk

    @property
    def page(self) -> ModelsPage:
        """The page."""
        return self.desk.page

    @property
    def engine(self) -> ScriptedEngine:
        """The window's engine, where no other was asked for."""
        assert isinstance(self.desktop.engine, ScriptedEngine)
        return self.desktop.engine

    def wait(self, condition: Callable[[], bool]) -> None:
        """Let the window run until it is so."""
        self.qtbot.waitUntil(condition)

    def show(self, tab: str) -> None:
        """Click a tab."""
        self.page.tab_button(tab).click()

    def search(self, words: str) -> None:
        """Type into the search field, press Enter, and wait for what comes."""
        self.show("discover")
        field = self.page.discover.search_field
        field.setText(words)
        field.returnPressed.emit()
        self.wait(lambda: self.desk.search.phase in ("shown", "failed"))

    def look_at(self, repo: str) -> None:
        """Choose a repository in the list, and wait until all of it is known."""
        place = self.page.discover.repos().index(repo)
        self.page.discover.list.setCurrentIndex(self.page.discover.rows.index(place))
        self.wait(lambda: self.desk.repo.card is not None or bool(self.desk.repo.error))

    def labels(self) -> dict[str, str]:
        """What stands beside the models of the library, by name."""
        view = self.page.library.list
        models = [view.rows.model(view.rows.index(place)) for place in range(view.rows.rowCount())]
        return {model.name: view.rows.label(model) for model in models}

    def choose(self, name: str, words: str) -> None:
        """Choose from the menu of a model of the library."""
        next(action for action in self._menu(name).actions() if action.text() == words).trigger()

    def offered(self, name: str) -> list[str]:
        """What the menu of a model of the library has."""
        return [action.text() for action in self._menu(name).actions() if action.text()]

    def _menu(self, name: str) -> QMenu:
        view = self.page.library.list
        return view.menu_for(view.rows.index(view.names().index(name)))


OpenScene = Callable[[Desktop], Scene]


@pytest.fixture
def open_scene(qtbot: QtBot) -> OpenScene:
    """Shows the models page of a window."""
    return lambda desktop: Scene(desktop, qtbot)


@pytest.fixture
def scene(open_desktop: OpenDesktop, open_scene: OpenScene) -> Scene:
    return open_scene(open_desktop())


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A small model in a folder of the user's."""
    folder = tmp_path / "mine" / "tiny-random"
    write_random_model(folder)
    return folder
