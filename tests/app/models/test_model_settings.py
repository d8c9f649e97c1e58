"""Settings of one model, in the window: what holds at once, what with the model anew, and what is kept."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path

import pytest
from PySide6.QtCore import QEvent
from PySide6.QtWidgets import QApplication

from app import text
from app.library.library import Library, open_library
from app.library.lookup import settings_at
from app.library.records import Model, ModelSettings
from app.models.model_settings_dialog import ModelSettingsDialog
from engine import LoadModel
from tests.app.models.conftest import Scene
from tests.fakes.dragging import drop


def loads(scene: Scene) -> list[LoadModel]:
    """What the engine was asked to load."""
    return [command for command in scene.engine.commands if isinstance(command, LoadModel)]


def fill(scene: Scene, *, system: str = "", **fields: str) -> ModelSettingsDialog:
    """Open the dialog of the model's settings, and write into it what is given."""
    scene.choose("tiny-random", "Settings…")
    dialog = scene.page.findChild(ModelSettingsDialog)
    assert dialog
    for name, words in fields.items():
        dialog.field(name).setText(words)
    dialog.system.setPlainText(system)
    return dialog


def save(scene: Scene, dialog: ModelSettingsDialog) -> None:
    """Save what is in the dialog, and wait until it holds."""
    with scene.qtbot.waitSignal(scene.desk.library.chosen):
        dialog.save.click()
        QApplication.sendPostedEvents(dialog, QEvent.Type.DeferredDelete)


def change(scene: Scene, *, system: str = "", **fields: str) -> None:
    """Set what is given for the model in its dialog, and save."""
    save(scene, fill(scene, system=system, **fields))


def began_with(scene: Scene, question: str) -> str:
    """Ask, and return what the model was told before the chat."""
    assert scene.desktop.conversation.send(question)
    scene.wait(lambda: not scene.desktop.conversation.state.busy)
    first = (scene.engine.requests()[-1].messages or ())[0]
    return first.content if first.role == "system" else ""


def test_settings_of_one_model_hold_when_it_is_opened(scene: Scene, model: Path) -> None:
    drop(scene.page, model)
    desktop = scene.desktop
    scene.wait(lambda: "tiny-random" in scene.labels())
    scene.choose("tiny-random", "Settings…")
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
    scene.choose("tiny-random", text.OPEN)
    scene.wait(lambda: desktop.models.state.phase == "ready")
    assert loads(scene)[-1].context == 1024
    assert desktop.conversation.send("Bonjour")
    scene.wait(lambda: not desktop.conversation.state.busy)
    request = scene.engine.requests()[-1]
    assert request.messages
    assert [(message.role, message.content) for message in request.messages] == [
        ("system", "Answer in French."),
        ("user", "Bonjour"),
    ]
    assert request.sampling.temperature == 0.25
    assert desktop.conversation.send("Et puis?")
    scene.wait(lambda: not desktop.conversation.state.busy)
    history = scene.engine.requests()[-1].history
    assert history
    assert history.messages == 3

    scene.choose("tiny-random", "Settings…")
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
    desktop, toast = scene.desktop, scene.page.toast
    scene.wait(lambda: "tiny-random" in scene.labels())
    scene.choose("tiny-random", text.OPEN)
    scene.wait(lambda: desktop.models.state.phase == "ready")
    if resting:
        scene.engine.rest()
        scene.wait(lambda: desktop.models.state.phase == "resting")
    toast.hide()
    change(scene, temperature="0.25", system="Answer in French.")
    assert not toast.isVisible(), "nothing of it needs the model anew"
    assert began_with(scene, "Bonjour") == "Answer in French."
    assert scene.engine.requests()[-1].sampling.temperature == 0.25
    before = loads(scene)
    change(scene, context="512")
    assert toast.text == text.OUTDATED.format(name="tiny-random")
    scene.wait(lambda: scene.desk.library.shelf.models[1].settings.context == 512)
    toast._button.click()
    scene.wait(lambda: desktop.models.state.phase == "ready")
    assert [load.context for load in loads(scene)[len(before) :]] == [512]
    change(scene, context="512", temperature="0.5")
    assert not toast.isVisible() or toast.text != text.OUTDATED.format(name="tiny-random")


def test_what_is_set_while_places_are_looked_through_holds_for_what_is_opened_meanwhile(
    scene: Scene, model: Path
) -> None:
    drop(scene.page, model)
    desktop = scene.desktop
    scene.wait(lambda: "tiny-random" in scene.labels())
    scene.choose("tiny-random", text.OPEN)
    scene.wait(lambda: desktop.models.state.phase == "ready")
    found_all = threading.Event()
    scene.desk.library._background.ask(found_all.wait, lambda _: None, print)
    change(scene, context="512")
    scene.page.toast._button.click()
    scene.wait(lambda: desktop.models.state.phase == "ready")
    assert loads(scene)[-1].context == 512
    scene.choose("tiny-random", "Settings…")
    dialog = scene.page.findChild(ModelSettingsDialog)
    assert dialog
    assert dialog.field("context").text() == "512"
    found_all.set()


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


def test_what_was_set_elsewhere_since_a_dialog_was_filled_stays(scene: Scene, model: Path) -> None:
    drop(scene.page, model)
    desktop, paths = scene.desktop, scene.desktop._paths
    scene.wait(lambda: "tiny-random" in scene.labels())
    scene.choose("tiny-random", text.OPEN)
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
    assert scene.engine.requests()[-1].sampling.temperature == 0.5


def test_what_is_set_and_cannot_be_saved_holds_for_the_open_model_and_is_said(
    scene: Scene, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drop(scene.page, model)
    scene.wait(lambda: "tiny-random" in scene.labels())
    scene.choose("tiny-random", text.OPEN)
    scene.wait(lambda: scene.desktop.models.state.phase == "ready")

    def full(library: Library, model: Model, settings: ModelSettings) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(Library, "save_settings", full)
    change(scene, temperature="0.25")
    assert "disk is full" in scene.page.banner.text
    began_with(scene, "Bonjour")
    assert scene.engine.requests()[-1].sampling.temperature == 0.25
