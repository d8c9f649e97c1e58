"""The model's state comes from the engine's events."""

from __future__ import annotations

from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app.library.records import ModelSettings, Own
from app.model_location import GUIDE
from app.models.models_view_model import ModelsViewModel
from engine import Command, Failed, LoadModel, LoadProgress, ModelReady, ModelUnloaded, UnloadModel
from tests.fakes.scripted_engine import model_info


@pytest.fixture
def sent() -> list[Command]:
    return []


@pytest.fixture
def models(qtbot: QtBot, sent: list[Command]) -> ModelsViewModel:
    return ModelsViewModel(sent.append, GUIDE)


def load_id(sent: list[Command]) -> str:
    assert isinstance(sent[-1], LoadModel)
    return sent[-1].id


def test_opening_asks_the_engine_and_is_loading_until_it_says_ready(
    models: ModelsViewModel, sent: list[Command]
) -> None:
    models.open("/models/tiny")
    assert sent == [LoadModel(load_id(sent), "/models/tiny", name="tiny")]
    assert (models.state.phase, models.state.name, models.state.progress) == ("loading", "tiny", 0.0)
    models.handle(LoadProgress(load_id(sent), 1, 4))
    assert (models.state.phase, models.state.progress) == ("loading", 0.25)
    models.handle(LoadProgress(load_id(sent), 4, 4, is_trying=True))
    assert (models.state.progress, models.state.is_trying) == (1.0, True)
    models.handle(ModelReady(load_id(sent), model_info("/models/tiny")))
    assert models.state.phase == "ready"
    assert models.state.info == model_info("/models/tiny")


def test_a_failed_load_says_why(models: ModelsViewModel, sent: list[Command]) -> None:
    models.open("/models/tiny")
    models.handle(Failed(load_id(sent), "config.json is missing", "ModelError"))
    assert (models.state.phase, models.state.error) == ("failed", "config.json is missing")


def test_events_of_an_older_load_are_passed_over(models: ModelsViewModel, sent: list[Command]) -> None:
    models.open("/models/first")
    first = load_id(sent)
    models.open("/models/second")
    models.handle(ModelReady(first, model_info("/models/first")))
    models.handle(Failed(first, "late", "ModelError"))
    assert (models.state.phase, models.state.path) == ("loading", "/models/second")


def ready(models: ModelsViewModel, sent: list[Command], *paths: str) -> None:
    """Open the models, the last of which is chosen then."""
    for path in paths:
        models.open(path)
        models.handle(ModelReady(load_id(sent), model_info(path)))


def test_a_model_that_is_loaded_is_chosen_at_once(models: ModelsViewModel, sent: list[Command]) -> None:
    ready(models, sent, "/models/a", "/models/b")
    opened: list[str] = []
    models.opened.connect(opened.append)
    asked = len(sent)
    models.open("/models/a")
    assert (models.state.phase, models.state.path, models.takes_requests) == ("ready", "/models/a", True)
    assert (len(sent), opened, models.recent) == (asked, ["/models/a"], ("/models/a", "/models/b"))
    assert {path: state.phase for path, state in models.states.items()} == {
        "/models/a": "ready",
        "/models/b": "ready",
    }


def test_what_happens_to_another_model_is_told_of_that_one(
    models: ModelsViewModel, sent: list[Command]
) -> None:
    ready(models, sent, "/models/a")
    of_a = load_id(sent)
    ready(models, sent, "/models/b")
    shown: list[str] = []
    models.state_changed.connect(lambda state: shown.append(state.phase))
    models.handle(ModelUnloaded("/models/a", "idle"))
    assert models.states["/models/a"].phase == "resting"
    models.handle(LoadProgress(of_a, 1, 4))
    assert models.states["/models/a"].progress == 0.25
    models.handle(Failed(of_a, "the disk is gone", "ModelError"))
    assert models.states["/models/a"].error == "the disk is gone"
    assert (models.state.phase, shown) == ("ready", [])


def test_when_the_chosen_one_is_unloaded_the_last_opened_of_the_others_is_chosen(
    models: ModelsViewModel, sent: list[Command]
) -> None:
    ready(models, sent, "/models/a", "/models/b", "/models/c")
    models.open("/models/a")
    models.unload("/models/a")
    assert sent[-1] == UnloadModel("/models/a")
    assert models.state.path == "/models/a", "not before the engine says so"
    models.handle(ModelUnloaded("/models/a"))
    assert (models.state.path, models.state.phase) == ("/models/c", "ready")


def test_one_that_is_opened_again_before_it_has_left_is_loaded_again(
    models: ModelsViewModel, sent: list[Command]
) -> None:
    """It may be a while until its pages are on SSD, beside others' answers."""
    ready(models, sent, "/models/b", "/models/a")
    models.unload("/models/a")
    models.open("/models/a")
    assert sent[-1] == LoadModel(load_id(sent), "/models/a", name="a")
    models.handle(ModelUnloaded("/models/a"))
    assert (models.state.path, models.state.phase) == ("/models/a", "loading")
    models.handle(ModelReady(load_id(sent), model_info("/models/a")))
    assert models.state.phase == "ready"
    asked = len(sent)
    models.open("/models/a")
    assert len(sent) == asked


def test_one_that_made_room_is_told_of(models: ModelsViewModel, sent: list[Command]) -> None:
    ready(models, sent, "/models/a")
    gone: list[str] = []
    models.made_room.connect(gone.append)
    models.open("/models/b")
    models.handle(ModelUnloaded("/models/a", "room"))
    assert gone == ["/models/a"]
    assert (models.state.path, models.state.phase, list(models.states)) == (
        "/models/b",
        "loading",
        ["/models/b"],
    )


def test_only_one_that_the_engine_has_can_be_chosen_without_opening_it(
    models: ModelsViewModel, sent: list[Command]
) -> None:
    ready(models, sent, "/models/a", "/models/b")
    models.choose("/models/elsewhere")
    assert models.state.path == "/models/b"
    models.handle(ModelUnloaded("/models/a", "idle"))
    asked = len(sent)
    models.choose("/models/a")
    assert (models.state.path, models.state.phase, len(sent)) == ("/models/a", "resting", asked)


def test_one_that_is_set_otherwise_meanwhile_is_loaded_anew(qtbot: QtBot, sent: list[Command]) -> None:
    own = ModelSettings(context=100)
    models = ModelsViewModel(sent.append, GUIDE, lambda path, then: then(Own(own)))
    ready(models, sent, "/models/a")
    own = ModelSettings(context=100, system="Be brief.")
    models.open("/models/a")
    assert (len(sent), models.system) == (1, "Be brief."), "what the engine is not told needs no load"
    own = ModelSettings(context=200)
    models.open("/models/a")
    assert sent[-1] == LoadModel(load_id(sent), "/models/a", context=200, name="a")
    assert models.state.phase == "loading"
    models.handle(ModelUnloaded("/models/a"))  # the engine frees it first
    models.handle(ModelReady(load_id(sent), model_info("/models/a")))
    assert models.state.phase == "ready"


def test_unloading_empties_but_not_while_the_next_one_loads(
    models: ModelsViewModel, sent: list[Command]
) -> None:
    models.open("/models/tiny")
    models.handle(ModelUnloaded("/models/before"))
    assert models.state.phase == "loading"
    models.handle(ModelReady(load_id(sent), model_info("/models/tiny")))
    models.handle(ModelUnloaded("/models/tiny"))
    assert models.state.phase == "none"


def test_a_model_that_rests_takes_requests_and_comes_back(
    models: ModelsViewModel, sent: list[Command]
) -> None:
    models.open("/models/tiny")
    load = load_id(sent)
    models.handle(ModelReady(load, model_info("/models/tiny")))
    models.handle(ModelUnloaded("/models/tiny", "idle"))
    assert (models.state.phase, models.state.name, models.state.info) == ("resting", "tiny", None)
    assert models.takes_requests
    models.handle(LoadProgress(load, 1, 4))
    assert (models.state.phase, models.state.progress, models.takes_requests) == ("loading", 0.25, True)
    models.handle(ModelReady(load, model_info("/models/tiny")))
    assert models.state.phase == "ready"
    models.handle(ModelUnloaded("/models/tiny", "idle"))
    models.handle(Failed(load, "the disk is gone", "ModelError"))
    assert (models.state.phase, models.state.error) == ("resting", "the disk is gone")
    assert models.takes_requests, "the disk may come back"
    models.handle(LoadProgress(load, 1, 4))
    models.handle(ModelUnloaded("/models/tiny", "idle"))  # nobody waits for it any more
    assert (models.state.phase, models.state.error) == ("resting", "")
    models.handle(LoadProgress(load, 1, 4))
    models.handle(ModelReady(load, model_info("/models/tiny")))
    assert (models.state.phase, models.state.error) == ("ready", "")


def test_one_that_rests_can_be_let_go_of(models: ModelsViewModel, sent: list[Command]) -> None:
    models.open("/models/tiny")
    models.handle(ModelReady(load_id(sent), model_info("/models/tiny")))
    models.handle(ModelUnloaded("/models/tiny", "idle"))
    models.handle(ModelUnloaded("/models/tiny"))
    assert (models.state.phase, models.takes_requests) == ("none", False)


def test_recent_models_are_the_last_opened_first_without_the_guide(
    models: ModelsViewModel, sent: list[Command]
) -> None:
    models.add_recent(["/models/a", "/models/b", str(GUIDE)])
    models.open("/models/b")
    models.handle(ModelReady(load_id(sent), model_info("/models/b")))
    assert models.recent == ("/models/b", "/models/a")


def test_the_guide_is_asked_for_its_likeliest_words(models: ModelsViewModel) -> None:
    models.open(str(GUIDE))
    assert models.is_guide
    assert models.sampling().temperature == 0
    assert models.sampling(2).temperature > 0  # or they would all be the same
    models.open(str(Path("/models/tiny")))
    assert not models.is_guide
    assert models.sampling().temperature > 0
