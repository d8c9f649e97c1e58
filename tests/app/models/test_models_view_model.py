"""The model's state comes from the engine's events."""

from __future__ import annotations

from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app.model_location import GUIDE
from app.models.models_view_model import ModelsViewModel
from engine import Command, Failed, LoadModel, LoadProgress, ModelReady, ModelUnloaded
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
    assert sent == [LoadModel(load_id(sent), "/models/tiny")]
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
    assert (models.state.phase, models.state.error) == ("failed", "the disk is gone")


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
