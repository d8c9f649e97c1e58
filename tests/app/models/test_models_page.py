"""The page among the rest of the window: keys, focus, and what it costs those who never open it."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractItemView, QLineEdit, QToolButton
from pytestqt.qtbot import QtBot

from tests.app.conftest import OpenDesktop
from tests.app.models.conftest import OpenScene, Scene
from tests.fakes.random_model import write_random_model
from tests.hub.fixtures import HubHome

NONE = Qt.KeyboardModifier.NoModifier
CTRL = Qt.KeyboardModifier.ControlModifier
START = """
import sys
import threading
from app.paths import Paths
from app.application import make_application
from app.wiring import Desktop
from engine import Engine
application = make_application()
desktop = Desktop(application, Engine, Paths(__import__("pathlib").Path(sys.argv[1])))
desktop.window.show()
for _ in range(20):
    application.processEvents()
print([name for name in ("huggingface_hub", "keyring", "httpx2", "app.models_desk") if name in sys.modules])
"""


@pytest.fixture
def scene(open_desktop: OpenDesktop, open_scene: OpenScene, qtbot: QtBot) -> Scene:
    desktop = open_desktop()
    desktop.window.activateWindow()
    qtbot.waitUntil(desktop.window.isActiveWindow)
    return open_scene(desktop)


def test_a_start_imports_nothing_of_it(tmp_path: Path) -> None:
    found = subprocess.run(
        [sys.executable, "-c", START, str(tmp_path)], capture_output=True, text=True, timeout=60, check=True
    )
    assert found.stdout.strip() == "[]"


def test_the_cursor_is_in_the_field_of_what_is_shown(scene: Scene) -> None:
    scene.wait(scene.page.library.filter_field.hasFocus)
    scene.show("discover")
    scene.wait(scene.page.discover.search_field.hasFocus)
    assert scene.page.tab == "discover"
    scene.page.left.emit()
    scene.wait(scene.desktop.pane.composer.focusProxy().hasFocus)


@pytest.mark.parametrize(
    ("key", "modifiers"),
    [(Qt.Key.Key_Escape, Qt.KeyboardModifier.NoModifier), (Qt.Key.Key_N, CTRL), (Qt.Key.Key_F, CTRL)],
)
def test_keys_lead_back_to_the_chats(
    scene: Scene, qtbot: QtBot, key: Qt.Key, modifiers: Qt.KeyboardModifier
) -> None:
    qtbot.keyClick(scene.page.library.filter_field, key, modifiers)
    scene.wait(lambda: scene.desktop.window.is_chat_shown)


def test_the_page_is_there_again_also_while_places_are_looked_through(scene: Scene) -> None:
    found_all = threading.Event()
    scene.desk.library._background.ask(found_all.wait, lambda _: None, print)
    scene.desktop.models_door.toggle()
    assert scene.desktop.window.is_chat_shown
    scene.desktop.models_door.toggle()
    scene.wait(lambda: not scene.desktop.window.is_chat_shown)
    assert scene.desk.library.is_scanning
    found_all.set()
    scene.wait(lambda: not scene.desk.library.is_scanning)


def test_down_leads_from_the_fields_into_the_lists(scene: Scene, qtbot: QtBot) -> None:
    scene.show("discover")
    qtbot.keyClick(scene.page.discover.search_field, Qt.Key.Key_Down)
    assert scene.page.discover.list.hasFocus()
    assert scene.page.discover.list.currentIndex().row() == 0
    scene.show("library")
    qtbot.keyClick(scene.page.library.filter_field, Qt.Key.Key_Down)
    assert scene.page.library.list.hasFocus()
    assert scene.page.library.list.currentIndex().data() == "guide"


def test_rows_are_opened_and_renamed_by_keys(scene: Scene, qtbot: QtBot, tmp_path: Path) -> None:
    write_random_model(tmp_path / "tiny-random")
    scene.desk.library.take_in(str(tmp_path / "tiny-random"))
    view = scene.page.library.list
    scene.wait(lambda: scene.labels() == {"guide": "Fits", "tiny-random": "Fits"})
    view.setFocus()
    view.setCurrentIndex(view.rows.index(0))
    qtbot.keyClick(view, Qt.Key.Key_Return)
    scene.wait(lambda: scene.labels() == {"guide": "Loaded", "tiny-random": "Fits"})
    qtbot.keyClick(view, Qt.Key.Key_F2)  # the guide keeps its name
    assert view.state() == QAbstractItemView.State.NoState
    view.setCurrentIndex(view.rows.index(1))
    qtbot.keyClick(view, Qt.Key.Key_F2)
    editor = view.findChild(QLineEdit)
    assert editor
    assert view.state() == QAbstractItemView.State.EditingState
    editor.setText("helper")
    scene.desk.library.set_favourite(scene.desk.library.shelf.models[0], True)
    scene.wait(lambda: scene.desk.library.shelf.models[0].favourite)
    assert editor.text() == "helper"
    qtbot.keyClick(editor, Qt.Key.Key_Return)
    scene.wait(lambda: view.names() == ["guide", "helper"])
    assert scene.labels() == {"guide": "Loaded", "helper": "Fits"}
    view.setCurrentIndex(view.rows.index(0))
    qtbot.keyClick(view, Qt.Key.Key_Delete)  # the guide stays
    view.setCurrentIndex(view.rows.index(1))
    qtbot.keyClick(view, Qt.Key.Key_Delete)  # what is the user's is only taken off the list
    scene.wait(lambda: view.names() == ["guide"])
    assert (tmp_path / "tiny-random" / "model.safetensors").is_file()


def test_every_control_has_a_name_and_can_be_reached(scene: Scene) -> None:
    for tab in ("library", "discover"):
        scene.show(tab)
        for button in scene.page.findChildren(QToolButton):
            if not button.inherits("QLineEditIconButton"):
                assert button.accessibleName() or button.text(), button.objectName()
                group = button.group()  # arrow keys lead from one of a group to the others
                near = group.buttons() if group else [button]
                assert any(one.focusPolicy() & Qt.FocusPolicy.TabFocus for one in near)
        for view in scene.page.findChildren(QAbstractItemView):
            assert view.accessibleName() or not view.isVisible()


def test_closing_ends_every_thread(scene: Scene, hub_home: HubHome) -> None:
    scene.search("anything")
    scene.desk.downloads.add("org/name", "")
    scene.wait(lambda: bool(scene.desk.downloads.states))
    scene.desk.token.look()
    scene.desktop.close()
    scene.wait(lambda: not [one.name for one in threading.enumerate() if one.name.startswith("mlxr-")])
