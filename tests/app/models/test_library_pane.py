"""My models: what lies where, and what a person does with it, in the window."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pytest

from app import text
from app.library.library import open_library
from app.library.look import look
from app.library.records import Facts
from app.models import library_view_model
from app.models.library_pane import NOTHING_FOUND
from app.models.library_view import DELETE, DELETE_FILES, FORGET
from app.models.model_settings_dialog import ModelSettingsDialog
from app.models.removal_dialog import RemovalDialog
from engine import UnloadModel
from tests.app.conftest import OpenDesktop
from tests.app.models.conftest import OpenScene, Scene
from tests.fakes.dragging import drop
from tests.fakes.models_elsewhere import cache_revision
from tests.hub.fixtures import HubHome

COMMIT = "a" * 40


def test_a_dropped_folder_is_listed_where_it_lies_and_stays_there(scene: Scene, model: Path) -> None:
    assert drop(scene.page, model)
    scene.wait(lambda: scene.labels() == {"guide": "Fits", "tiny-random": "Fits"})
    assert "tiny-random is listed" in scene.page.toast.text
    assert scene.offered("tiny-random")[-2:] == [FORGET, DELETE_FILES]
    assert FORGET not in scene.offered("guide")
    scene.choose("tiny-random", FORGET)
    scene.wait(lambda: list(scene.labels()) == ["guide"])
    assert (model / "model.safetensors").is_file()
    assert "stay" in scene.page.toast.text


def test_a_model_that_was_opened_by_its_path_is_listed_until_it_is_taken_off_the_list(
    open_desktop: OpenDesktop, open_scene: OpenScene, model: Path
) -> None:
    desktop = open_desktop(model=model)
    desktop.models_door.show_context(str(model))  # as the way out of a refusal does
    scene = open_scene(desktop)
    assert scene.labels() == {"guide": "Fits", "tiny-random": "Loaded"}
    assert not scene.page.banner.isVisible()
    (dialog,) = desktop.window.findChildren(ModelSettingsDialog)
    assert dialog.windowTitle() == "Settings of tiny-random"
    dialog.reject()
    scene.choose("tiny-random", FORGET)
    scene.wait(lambda: list(scene.labels()) == ["guide"])
    desktop.models.unload(str(model))
    scene.wait(lambda: desktop.models.state.phase == "none")
    desktop.models.open(str(model))
    scene.wait(lambda: desktop.models.state.phase == "ready")
    scene.desk.library.scan()
    scene.wait(lambda: not scene.desk.library.is_scanning)
    assert list(scene.labels()) == ["guide"]


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
    scene.choose("tiny-random", DELETE_FILES)
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


def test_files_that_vanish_are_shown_as_gone(
    open_desktop: OpenDesktop, open_scene: OpenScene, hub_home: HubHome, model: Path
) -> None:
    snapshot = cache_revision(hub_home.cache, "org/small", COMMIT, model)
    desktop = open_desktop()
    scene = open_scene(desktop)
    scene.wait(lambda: scene.labels().get("small") == "Fits")
    assert DELETE in scene.offered("small")
    shutil.rmtree(snapshot.parents[1])
    scene.page.left.emit()
    scene = open_scene(desktop)
    scene.wait(lambda: scene.labels()["small"] == "Gone")
    assert text.OPEN not in scene.offered("small")
    assert scene.offered("small")[-1] == FORGET
    scene.choose("small", FORGET)
    scene.wait(lambda: list(scene.labels()) == ["guide"])
    assert scene.page.toast.text == "small is no longer listed"


def test_the_engine_says_what_is_loaded(scene: Scene, model: Path) -> None:
    drop(scene.page, model)
    engine = scene.engine
    scene.wait(lambda: "tiny-random" in scene.labels())
    engine.fail_loads = "out of memory"
    scene.choose("tiny-random", text.OPEN)
    scene.wait(lambda: scene.desktop.models.state.phase == "failed")
    assert scene.labels()["tiny-random"] == "Fits"
    assert scene.page.banner.text == "tiny-random could not be opened: out of memory"
    engine.fail_loads = ""
    scene.choose("tiny-random", text.OPEN)
    scene.wait(lambda: scene.labels()["tiny-random"] == "Loaded")
    assert scene.page.banner.isHidden()
    scene.page.toast._button.click()
    assert scene.desktop.window.is_chat_shown
    engine.rest()
    scene.wait(lambda: scene.labels()["tiny-random"] == "Resting")
    scene.choose("tiny-random", text.UNLOAD)
    scene.wait(lambda: scene.labels()["tiny-random"] == "Fits")
    assert isinstance(engine.commands[-1], UnloadModel)
    assert scene.desktop.models.state.path == "/models/tiny-chat", "the one that was open before"


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


def test_the_end_does_not_wait_until_what_was_opened_is_listed(
    open_desktop: OpenDesktop, model: Path, hub_home: HubHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        cache_revision(hub_home.cache, f"lab/{number}", COMMIT, model)
    begun, ending, looked = threading.Event(), threading.Event(), list[Path]()

    def slow_look(path: Path) -> Facts:
        looked.append(path)
        begun.set()
        assert ending.wait(60)
        return look(path)

    monkeypatch.setattr("app.library.look.look", slow_look)
    desktop = open_desktop(model=model)
    assert begun.wait(60)
    thread = desktop.models_door._library._thread
    join = thread.join

    def join_now(timeout: float | None = None) -> None:
        ending.set()
        join(60)

    monkeypatch.setattr(thread, "join", join_now)
    desktop.close()
    assert len(looked) == 1
    with open_library(desktop._paths) as library:
        assert library.places() == []


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
