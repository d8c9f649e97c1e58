"""My models: what lies where, and what a person does with it, in the window."""

from __future__ import annotations

import shutil
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest
from PySide6.QtCore import QEvent, Qt
from PySide6.QtWidgets import QApplication, QLabel, QLineEdit, QPushButton
from pytestqt.qtbot import QtBot

from app import text
from app.downloads.journal import Journal
from app.downloads.wanted import Wanted
from app.library.library import Library, open_library
from app.library.look import look
from app.library.lookup import settings_at
from app.library.records import Facts, Model, ModelSettings
from app.models import library_view_model
from app.models.left_out_dialog import LeftOutDialog
from app.models.library_pane import NOTHING_FOUND
from app.models.library_view import DELETE, DELETE_FILES, FORGET, LibraryView
from app.models.model_settings_dialog import ModelSettingsDialog
from app.models.removal_dialog import RemovalDialog
from app.wiring import Desktop
from engine import LoadModel, UnloadModel
from tests.app.conftest import OpenDesktop
from tests.app.models.conftest import OpenScene, Scene
from tests.fakes.busy_thread import keep_busy
from tests.fakes.dragging import drop
from tests.fakes.models_elsewhere import cache_revision
from tests.fakes.random_model import write_random_model
from tests.fakes.scripted_engine import ScriptedEngine
from tests.hub.fixtures import HubHome

COMMIT = "a" * 40


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A small model in a folder of the user's."""
    folder = tmp_path / "mine" / "tiny-random"
    write_random_model(folder)
    return folder


@pytest.fixture
def scene(open_desktop: OpenDesktop, open_scene: OpenScene) -> Scene:
    return open_scene(open_desktop())


def choose(view: LibraryView, name: str, words: str) -> None:
    """Choose from the menu of a model."""
    menu = view.menu_for(view.rows.index(view.names().index(name)))
    next(action for action in menu.actions() if action.text() == words).trigger()


def offered(view: LibraryView, name: str) -> list[str]:
    menu = view.menu_for(view.rows.index(view.names().index(name)))
    return [action.text() for action in menu.actions() if action.text()]


def sent(desktop: Desktop) -> ScriptedEngine:
    assert isinstance(desktop.engine, ScriptedEngine)
    return desktop.engine


def test_a_dropped_folder_is_listed_where_it_lies_and_stays_there(scene: Scene, model: Path) -> None:
    assert drop(scene.page, model)
    scene.wait(lambda: scene.labels() == {"guide": "Fits", "tiny-random": "Fits"})
    assert "tiny-random is listed" in scene.page.toast.text
    view = scene.page.library.list
    assert offered(view, "tiny-random")[-2:] == [FORGET, DELETE_FILES]
    assert FORGET not in offered(view, "guide")
    choose(view, "tiny-random", FORGET)
    scene.wait(lambda: list(scene.labels()) == ["guide"])
    assert (model / "model.safetensors").is_file()
    assert "stay" in scene.page.toast.text


def test_what_is_no_model_is_said_and_changes_nothing(scene: Scene, tmp_path: Path) -> None:
    empty, words = tmp_path / "empty", tmp_path / "words.txt"
    empty.mkdir()
    words.write_text("no model")
    assert not drop(scene.page, words)
    assert drop(scene.page, empty)
    scene.wait(scene.page.banner.isVisible)
    assert "holds no model" in scene.page.banner.text
    assert list(scene.labels()) == ["guide"]
    scene.wait(lambda: not scene.desk.library.is_scanning)


def test_files_of_the_user_go_only_after_a_question(scene: Scene, model: Path) -> None:
    note = model / "my notes.txt"
    note.write_text("keep")
    drop(scene.page, model)
    scene.wait(lambda: "tiny-random" in scene.labels())
    choose(scene.page.library.list, "tiny-random", DELETE_FILES)
    scene.wait(lambda: scene.page.findChild(RemovalDialog) is not None)
    dialog = scene.page.findChild(RemovalDialog)
    assert dialog
    assert str(model) in dialog.words
    dialog.reject()
    assert (model / "model.safetensors").is_file()
    dialog.accepted.emit()
    scene.wait(lambda: list(scene.labels()) == ["guide"])
    assert [path.name for path in model.iterdir()] == ["my notes.txt"]
    assert "freed" in scene.page.toast.text


def test_names_and_favourites_are_kept(scene: Scene, model: Path) -> None:
    drop(scene.page, model)
    view = scene.page.library.list
    scene.wait(lambda: view.names() == ["guide", "tiny-random"])
    view.rows.setData(view.rows.index(1), "my-model")
    scene.wait(lambda: view.names() == ["guide", "my-model"])
    choose(view, "my-model", "Favourite")
    scene.wait(lambda: view.names() == ["my-model", "guide"])
    view.rows.setData(view.rows.index(0), "no good name")
    scene.wait(scene.page.banner.isVisible)
    assert "cannot be a name" in scene.page.banner.text
    assert view.names() == ["my-model", "guide"]


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


def test_files_that_vanish_are_shown_as_gone(
    open_desktop: OpenDesktop, open_scene: OpenScene, hub_home: HubHome, model: Path
) -> None:
    snapshot = cache_revision(hub_home.cache, "org/small", COMMIT, model)
    desktop = open_desktop()
    scene = open_scene(desktop)
    scene.wait(lambda: scene.labels().get("small") == "Fits")
    assert DELETE in offered(scene.page.library.list, "small")
    shutil.rmtree(snapshot.parents[1])
    scene.page.left.emit()
    scene = open_scene(desktop)
    scene.wait(lambda: scene.labels()["small"] == "Gone")
    view = scene.page.library.list
    assert text.OPEN not in offered(view, "small")
    assert offered(view, "small")[-1] == FORGET
    choose(view, "small", FORGET)
    scene.wait(lambda: list(scene.labels()) == ["guide"])
    assert scene.page.toast.text == "small is no longer listed"


def test_the_engine_says_what_is_loaded(scene: Scene, model: Path) -> None:
    drop(scene.page, model)
    view, engine = scene.page.library.list, sent(scene.desktop)
    scene.wait(lambda: "tiny-random" in scene.labels())
    engine.fail_loads = "out of memory"
    choose(view, "tiny-random", text.OPEN)
    scene.wait(lambda: scene.desktop.models.state.phase == "failed")
    assert scene.labels()["tiny-random"] == "Fits"
    assert scene.page.banner.text == "tiny-random could not be opened: out of memory"
    engine.fail_loads = ""
    choose(view, "tiny-random", text.OPEN)
    scene.wait(lambda: scene.labels()["tiny-random"] == "Loaded")
    assert scene.page.banner.isHidden()
    scene.page.toast._button.click()
    assert scene.desktop.window.is_chat_shown
    engine.rest()
    scene.wait(lambda: scene.labels()["tiny-random"] == "Resting")
    choose(view, "tiny-random", text.UNLOAD)
    scene.wait(lambda: scene.labels()["tiny-random"] == "Fits")
    assert isinstance(engine.commands[-1], UnloadModel)
    assert scene.desktop.models.state.path == "/models/tiny-chat", "the one that was open before"


def test_settings_of_one_model_hold_when_it_is_opened(scene: Scene, model: Path, qtbot: QtBot) -> None:
    drop(scene.page, model)
    view, desktop = scene.page.library.list, scene.desktop
    scene.wait(lambda: "tiny-random" in scene.labels())
    choose(view, "tiny-random", "Settings…")
    dialog = scene.page.findChild(ModelSettingsDialog)
    assert dialog
    dialog.field("context").setText("none")
    dialog.save.click()
    assert "whole number" in dialog.note
    assert dialog.isVisible()
    dialog.field("context").setText("1,024")
    dialog.field("temperature").setText("0.25")
    dialog.system.setPlainText("Answer in French.")
    dialog.save.click()
    key = f"path:{model}"
    scene.wait(lambda: (found := scene.desk.library.find(key)) is not None and found.settings.context == 1024)
    choose(view, "tiny-random", text.OPEN)
    scene.wait(lambda: desktop.models.state.phase == "ready")
    assert loads(desktop)[-1].context == 1024
    assert desktop.conversation.send("Bonjour")
    scene.wait(lambda: not desktop.conversation.state.busy)
    request = sent(desktop).requests()[-1]
    assert request.messages
    assert [(message.role, message.content) for message in request.messages] == [
        ("system", "Answer in French."),
        ("user", "Bonjour"),
    ]
    assert request.sampling.temperature == 0.25
    assert desktop.conversation.send("Et puis?")
    scene.wait(lambda: not desktop.conversation.state.busy)
    history = sent(desktop).requests()[-1].history
    assert history
    assert history.messages == 3

    choose(view, "tiny-random", "Settings…")
    dialog = scene.page.findChild(ModelSettingsDialog)
    assert dialog
    dialog.system.setPlainText("Answer in Greek.")
    dialog.save.click()
    scene.wait(
        lambda: (found := scene.desk.library.find(key)) is not None and "Greek" in found.settings.system
    )
    with scene.qtbot.waitSignal(desktop.models.opened):
        desktop.models.open(str(model))
    assert began_with(scene, "Encore") == "Answer in French.", "a chat keeps what it began with"
    desktop.conversation.new_chat()
    assert began_with(scene, "Kalimera") == "Answer in Greek."


@pytest.mark.parametrize("resting", [False, True])
def test_settings_of_the_open_model_hold_at_once_as_far_as_they_can(
    scene: Scene, model: Path, resting: bool
) -> None:
    drop(scene.page, model)
    view, desktop, toast = scene.page.library.list, scene.desktop, scene.page.toast
    scene.wait(lambda: "tiny-random" in scene.labels())
    choose(view, "tiny-random", text.OPEN)
    scene.wait(lambda: desktop.models.state.phase == "ready")
    if resting:
        sent(desktop).rest()
        scene.wait(lambda: desktop.models.state.phase == "resting")
    toast.hide()
    change(scene, temperature="0.25", system="Answer in French.")
    assert not toast.isVisible(), "nothing of it needs the model anew"
    assert began_with(scene, "Bonjour") == "Answer in French."
    assert sent(desktop).requests()[-1].sampling.temperature == 0.25
    before = loads(desktop)
    change(scene, context="512")
    assert toast.text == text.OUTDATED.format(name="tiny-random")
    scene.wait(lambda: scene.desk.library.shelf.models[1].settings.context == 512)
    toast._button.click()
    scene.wait(lambda: desktop.models.state.phase == "ready")
    assert [load.context for load in loads(desktop)[len(before) :]] == [512]
    change(scene, context="512", temperature="0.5")
    assert not toast.isVisible() or toast.text != text.OUTDATED.format(name="tiny-random")


def test_what_is_set_while_places_are_looked_through_holds_for_what_is_opened_meanwhile(
    scene: Scene, model: Path
) -> None:
    drop(scene.page, model)
    view, desktop = scene.page.library.list, scene.desktop
    scene.wait(lambda: "tiny-random" in scene.labels())
    choose(view, "tiny-random", text.OPEN)
    scene.wait(lambda: desktop.models.state.phase == "ready")
    found_all = threading.Event()
    scene.desk.library._background.ask(found_all.wait, lambda _: None, print)
    change(scene, context="512")
    scene.page.toast._button.click()
    scene.wait(lambda: desktop.models.state.phase == "ready")
    assert loads(desktop)[-1].context == 512
    choose(view, "tiny-random", "Settings…")
    dialog = scene.page.findChild(ModelSettingsDialog)
    assert dialog
    assert dialog.field("context").text() == "512"
    found_all.set()


def test_names_and_favourites_hold_at_once_while_places_are_looked_through(
    scene: Scene, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drop(scene.page, model)
    view = scene.page.library.list
    scene.wait(lambda: view.names() == ["guide", "tiny-random"])
    keep_busy(scene.desk.library._background, monkeypatch)
    view.rows.setData(view.rows.index(1), "my-model")
    scene.wait(lambda: view.names() == ["guide", "my-model"])
    choose(view, "my-model", "Favourite")
    scene.wait(lambda: view.names() == ["my-model", "guide"])


def test_the_way_to_a_context_does_not_lead_through_all_places(
    scene: Scene, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drop(scene.page, model)
    scene.wait(lambda: "tiny-random" in scene.labels())
    scene.page.left.emit()
    found_all = threading.Event()

    def look_for_long(*_: object, **__: object) -> tuple[str, ...]:
        found_all.wait(60)
        return ()

    monkeypatch.setattr(Library, "refresh", look_for_long)
    scene.desktop.models_door.show_context(str(model))
    scene.wait(lambda: scene.page.findChild(ModelSettingsDialog) is not None)
    assert scene.desk.library.is_scanning
    found_all.set()


def test_what_is_set_right_before_the_end_is_kept(scene: Scene, model: Path) -> None:
    drop(scene.page, model)
    view, paths = scene.page.library.list, scene.desktop._paths
    scene.wait(lambda: view.names() == ["guide", "tiny-random"])
    fill(scene, context="512").save.click()
    view.rows.setData(view.rows.index(1), "my-model")
    scene.desktop.close()
    assert settings_at(model, paths) == ModelSettings(context=512)
    with open_library(paths) as library:
        assert library.named("my-model").path == model


def test_the_end_cuts_a_look_through_all_places_short_and_lists_what_was_dropped(
    scene: Scene, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drop(scene.page, model)
    scene.wait(lambda: scene.page.library.list.names() == ["guide", "tiny-random"])
    thread, begun, ending = scene.desk.library._background._thread, threading.Event(), threading.Event()
    looked, join = list[str](), thread.join

    def slow_look(path: Path) -> Facts:
        looked.append(path.name)
        begun.set()
        assert ending.wait(60)
        return look(path)

    def join_now(timeout: float | None = None) -> None:
        ending.set()
        join(60)

    monkeypatch.setattr(library_view_model, "look", slow_look)
    monkeypatch.setattr(thread, "join", join_now)
    scene.desk.library.scan(again=True)
    assert begun.wait(60)
    shutil.copytree(model, tmp_path / "another")
    scene.desk.library.take_in(str(tmp_path / "another"))
    scene.desktop.close()
    assert looked[1:] == ["another"]
    with open_library(scene.desktop._paths) as library:
        assert library.named("another").path == tmp_path / "another"


def test_what_was_set_elsewhere_since_a_dialog_was_filled_stays(scene: Scene, model: Path) -> None:
    drop(scene.page, model)
    view, desktop, paths = scene.page.library.list, scene.desktop, scene.desktop._paths
    scene.wait(lambda: "tiny-random" in scene.labels())
    choose(view, "tiny-random", text.OPEN)
    scene.wait(lambda: desktop.models.state.phase == "ready")
    change(scene, temperature="0.25", top_k="7")
    dialog = fill(scene, temperature="0.5", top_k="")
    with open_library(paths, must_save=True) as library:  # as `mlxr models --set` does
        own = ModelSettings(temperature=0.25, top_k=7, context=512, system="Answer in French.")
        library.save_settings(library.named("tiny-random"), own)
    save(scene, dialog)
    wanted = ModelSettings(temperature=0.5, context=512, system="Answer in French.")
    assert settings_at(model, paths) == wanted
    assert scene.page.toast.text == text.OUTDATED.format(name="tiny-random")
    assert began_with(scene, "Bonjour") == "Answer in French."
    assert sent(desktop).requests()[-1].sampling.temperature == 0.5


def test_what_is_set_and_cannot_be_saved_holds_for_the_open_model_and_is_said(
    scene: Scene, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drop(scene.page, model)
    scene.wait(lambda: "tiny-random" in scene.labels())
    choose(scene.page.library.list, "tiny-random", text.OPEN)
    scene.wait(lambda: scene.desktop.models.state.phase == "ready")

    def full(library: Library, model: Model, settings: ModelSettings) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(Library, "save_settings", full)
    change(scene, temperature="0.25")
    assert "disk is full" in scene.page.banner.text
    began_with(scene, "Bonjour")
    assert sent(scene.desktop).requests()[-1].sampling.temperature == 0.25


def loads(desktop: Desktop) -> list[LoadModel]:
    """What the engine was asked to load."""
    return [command for command in sent(desktop).commands if isinstance(command, LoadModel)]


def change(scene: Scene, *, system: str = "", **fields: str) -> None:
    """Set what is given for the model in its dialog, and save."""
    save(scene, fill(scene, system=system, **fields))


def save(scene: Scene, dialog: ModelSettingsDialog) -> None:
    """Save what is in the dialog, and wait until it holds."""
    with scene.qtbot.waitSignal(scene.desk.library.chosen):
        dialog.save.click()
        QApplication.sendPostedEvents(dialog, QEvent.Type.DeferredDelete)


def fill(scene: Scene, *, system: str = "", **fields: str) -> ModelSettingsDialog:
    """Open the dialog of the model's settings, and write into it what is given."""
    choose(scene.page.library.list, "tiny-random", "Settings…")
    dialog = scene.page.findChild(ModelSettingsDialog)
    assert dialog
    for name, words in fields.items():
        dialog.field(name).setText(words)
    dialog.system.setPlainText(system)
    return dialog


def began_with(scene: Scene, question: str) -> str:
    """Ask, and return what the model was told before the chat."""
    assert scene.desktop.conversation.send(question)
    scene.wait(lambda: not scene.desktop.conversation.state.busy)
    first = (sent(scene.desktop).requests()[-1].messages or ())[0]
    return first.content if first.role == "system" else ""


def test_what_comes_while_places_are_looked_through_is_found(
    scene: Scene, hub_home: HubHome, model: Path
) -> None:
    scene.desk.library.scan()
    assert scene.desk.library.is_scanning
    scene.desk.library._background.ask(
        lambda: cache_revision(hub_home.cache, "org/late", COMMIT, model), lambda _: None, print
    )
    scene.desk.library.scan()
    scene.wait(lambda: scene.labels() == {"guide": "Fits", "late": "Fits"})


def test_what_is_not_whole_is_counted_and_no_model(scene: Scene, hub_home: HubHome, model: Path) -> None:
    snapshot = cache_revision(hub_home.cache, "org/half", COMMIT, model)
    next(snapshot.glob("tokenizer.*")).unlink()
    scene.page.library._again.menu().actions()[0].trigger()
    scene.wait(lambda: "1 more is not whole" in scene.page.library.note)
    assert list(scene.labels()) == ["guide"]
    scene.page.library.left_out.click()
    dialog = scene.page.findChild(LeftOutDialog)
    assert dialog
    assert any("tokenizer" in label.text() for label in dialog.rows[0].findChildren(QLabel))


def test_a_filter_leaves_what_has_its_words(scene: Scene, model: Path) -> None:
    drop(scene.page, model)
    view, field = scene.page.library.list, scene.page.library.filter_field
    scene.wait(lambda: view.names() == ["guide", "tiny-random"])
    field.setText("RANDOM tiny")
    assert view.names() == ["tiny-random"]
    field.setText("nothing like it")
    assert view.names() == []
    assert scene.page.library.note == NOTHING_FOUND
    field.clear()
    assert view.names() == ["guide", "tiny-random"]


def test_what_is_left_out_is_told_and_deleted_with_the_space_it_took(
    open_desktop: OpenDesktop, open_scene: OpenScene, hub_home: HubHome, tmp_path: Path
) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "pytorch_model.bin").write_bytes(b"\x80" * 2_000_000)
    folder = cache_revision(hub_home.cache, "org/pickled", COMMIT, tmp_path / "files").parent.parent
    scene = open_scene(open_desktop())
    pane = scene.page.library
    scene.wait(pane.left_out.isVisible)
    assert "1 more is not whole or not readable" in pane.note
    with closing(Journal(scene.desktop._paths.downloads)) as journal:
        entry = journal.add(Wanted("org/pickled"))
        delete_left_out(scene)
        scene.wait(scene.page.banner.isVisible)
        assert "mlxr pull org/pickled --cancel" in scene.page.banner.text
        assert "1 more is" in pane.note
        journal.forget(entry.id)
    delete_left_out(scene)
    scene.wait(lambda: scene.page.findChild(RemovalDialog) is not None)
    removal = scene.page.findChild(RemovalDialog)
    assert removal
    assert removal.words == f"2.0 MB will be freed by deleting {folder}."
    removal.delete_button.click()
    scene.wait(lambda: not pane.left_out.isVisible())
    assert scene.page.toast.text == "org/pickled is deleted: 2.0 MB freed"
    assert not folder.exists()


def delete_left_out(scene: Scene) -> None:
    """Open what is told of it, and press the button of its only row."""
    scene.page.library.left_out.click()
    dialog = scene.page.findChild(LeftOutDialog)
    assert dialog
    (row,) = dialog.rows
    assert next(label.text() for label in row.findChildren(QLabel)) == "org/pickled · 2.0 MB"
    button = row.findChild(QPushButton)
    assert button
    button.click()
    QApplication.sendPostedEvents(dialog, QEvent.Type.DeferredDelete)
