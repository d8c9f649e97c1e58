"""A smaller model that guesses ahead for another one: chosen in its settings, and told to the engine."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from app import text
from app.models.draft_choices import NONE
from app.models.model_settings_dialog import DRAFT_MODEL, NO_DRAFT, ModelSettingsDialog
from app.widgets.choice_menu import ChoiceMenu
from engine import LoadModel
from tests.app.models.conftest import Scene
from tests.engine.speculation.guide import wrong_draft
from tests.fakes.dragging import drop


@pytest.fixture
def small(tmp_path: Path, scene: Scene) -> Path:
    """A model of the guide's vocabulary, smaller than the guide, in the library."""
    folder = wrong_draft(tmp_path / "mine" / "small")
    drop(scene.page, folder)
    scene.wait(lambda: "small" in scene.labels())
    return folder


def settings_of(scene: Scene, name: str) -> ModelSettingsDialog:
    scene.choose(name, "Settings…")
    dialog = scene.page.findChild(ModelSettingsDialog)
    assert dialog
    return dialog


def words(menu: ChoiceMenu) -> list[str]:
    return [action.text() for action in menu.menu().actions()]


def draft_of(scene: Scene, name: str) -> str:
    return next(model.settings.draft_model for model in scene.desk.library.shelf.models if model.name == name)


def fitted_weights(scene: Scene, name: str) -> int:
    """Bytes of weights of which it is told whether they fit."""
    shelf = scene.desk.library.shelf
    return next(shelf.fits[model.key].weight_bytes for model in shelf.models if model.name == name)


def last_load(scene: Scene) -> LoadModel:
    return [command for command in scene.engine.commands if isinstance(command, LoadModel)][-1]


def open_guide(scene: Scene) -> str:
    """Returns its path, when it is loaded."""
    guide = scene.desktop.models.guide
    with scene.qtbot.waitSignal(scene.desktop.models.opened):
        scene.desktop.models.open(guide)
    return guide


def choose_draft(scene: Scene, name: str) -> None:
    """Choose it for the guide, and save."""
    dialog = settings_of(scene, "guide")
    dialog.draft_model.choose(name)
    with scene.qtbot.waitSignal(scene.desk.library.chosen):
        dialog.save.click()
    scene.wait(lambda: scene.page.findChild(ModelSettingsDialog) is None)


def test_smaller_models_of_as_many_tokens_can_be_chosen(scene: Scene, small: Path, model: Path) -> None:
    drop(scene.page, model)  # of other tokens
    scene.wait(lambda: "tiny-random" in scene.labels())
    dialog = settings_of(scene, "guide")
    assert words(dialog.draft_model) == [NONE, "small"]
    dialog.reject()
    scene.wait(lambda: scene.page.findChild(ModelSettingsDialog) is None)
    dialog = settings_of(scene, "small")  # for which the guide is too large
    assert not dialog.draft_model.isVisible()
    assert NO_DRAFT in [label.text() for label in dialog.findChildren(type(dialog._note))]


def test_the_engine_is_told_of_it_when_the_model_is_opened_again(scene: Scene, small: Path) -> None:
    guide, weights = open_guide(scene), fitted_weights(scene, "guide")
    choose_draft(scene, "small")
    assert draft_of(scene, "guide") == "small"
    both = weights + fitted_weights(scene, "small")
    scene.wait(lambda: fitted_weights(scene, "guide") == both)
    assert scene.page.toast.text == text.OUTDATED.format(name="guide")
    scene.page.toast._button.click()
    scene.wait(lambda: last_load(scene).draft_model == str(small))
    assert last_load(scene).path == guide
    scene.wait(lambda: scene.desktop.models.state.phase == "ready")
    choose_draft(scene, "")
    scene.desktop.models.open(guide)
    scene.wait(lambda: last_load(scene).draft_model == "")


def test_one_that_is_gone_is_said_and_can_be_left_out(scene: Scene, small: Path) -> None:
    guide = open_guide(scene)
    choose_draft(scene, "small")
    shutil.rmtree(small)
    scene.desktop.models.unload(guide)
    scene.wait(lambda: guide not in scene.desktop.models.states)
    scene.desktop.models.open(guide)
    scene.wait(lambda: scene.desktop.models.state.phase == "failed")
    assert "its draft model small is not there any more" in scene.desktop.models.state.error
    assert DRAFT_MODEL.lower() in scene.page.banner.text
    choose_draft(scene, "")
    open_guide(scene)


def test_it_keeps_guessing_under_another_name(scene: Scene, small: Path) -> None:
    choose_draft(scene, "small")
    view = scene.page.library.list
    place = view.names().index("small")
    assert view.rows.setData(view.rows.index(place), "tiny")
    scene.wait(lambda: "tiny" in scene.labels() and draft_of(scene, "guide") == "tiny")
    assert words(settings_of(scene, "guide").draft_model) == [NONE, "tiny"]
