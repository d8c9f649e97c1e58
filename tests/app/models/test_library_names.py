"""Names and favourites of my models, and the menu of each, while the list changes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLineEdit
from pytestqt.qtbot import QtBot

from tests.app.models.conftest import Scene
from tests.fakes.busy_thread import keep_busy
from tests.fakes.dragging import drop


def test_names_and_favourites_are_kept(scene: Scene, model: Path) -> None:
    drop(scene.page, model)
    view = scene.page.library.list
    scene.wait(lambda: view.names() == ["guide", "tiny-random"])
    view.rows.setData(view.rows.index(1), "my-model")
    scene.wait(lambda: view.names() == ["guide", "my-model"])
    scene.choose("my-model", "Favourite")
    scene.wait(lambda: view.names() == ["my-model", "guide"])
    view.rows.setData(view.rows.index(0), "no good name")
    scene.wait(scene.page.banner.isVisible)
    assert "cannot be a name" in scene.page.banner.text
    assert view.names() == ["my-model", "guide"]


def test_names_and_favourites_hold_at_once_while_places_are_looked_through(
    scene: Scene, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drop(scene.page, model)
    view = scene.page.library.list
    scene.wait(lambda: view.names() == ["guide", "tiny-random"])
    keep_busy(scene.desk.library._background, monkeypatch)
    view.rows.setData(view.rows.index(1), "my-model")
    scene.wait(lambda: view.names() == ["guide", "my-model"])
    scene.choose("my-model", "Favourite")
    scene.wait(lambda: view.names() == ["my-model", "guide"])


def test_models_that_come_while_a_name_is_typed_leave_it_alone(
    scene: Scene, model: Path, tmp_path: Path, qtbot: QtBot
) -> None:
    drop(scene.page, model)
    view = scene.page.library.list
    scene.wait(lambda: view.names() == ["guide", "tiny-random"])
    view.edit(view.rows.index(1))
    editor = view.findChild(QLineEdit)
    assert editor
    qtbot.keyClicks(editor, "my-mo")
    shutil.copytree(model, tmp_path / "another")
    scene.desk.library.take_in(str(tmp_path / "another"))
    scene.wait(lambda: len(scene.desk.library.shelf.models) == 3)
    assert editor.isVisible()
    qtbot.keyClicks(editor, "del")
    qtbot.keyClick(editor, Qt.Key.Key_Return)
    scene.wait(lambda: view.names() == ["another", "guide", "my-model"])


def test_a_menu_is_of_the_model_that_it_was_opened_for(scene: Scene, model: Path, tmp_path: Path) -> None:
    drop(scene.page, model)
    view, opened = scene.page.library.list, list[str]()
    scene.page.opened.connect(opened.append)
    scene.wait(lambda: view.names() == ["guide", "tiny-random"])
    menu = view.menu_for(view.rows.index(1))
    shutil.copytree(model, tmp_path / "another")
    scene.desk.library.take_in(str(tmp_path / "another"))
    scene.wait(lambda: view.names() == ["another", "guide", "tiny-random"])
    menu.actions()[0].trigger()
    assert opened == [str(model)]
    next(action for action in menu.actions() if action.text() == "Rename").trigger()
    editor = view.findChild(QLineEdit)
    assert editor
    assert editor.text() == "tiny-random"
