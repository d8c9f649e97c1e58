"""A model that is loaded once more, with other settings: what the window says where that is refused."""

from __future__ import annotations

from typing import Literal

import pytest

from app.library.records import ModelSettings, Own
from app.model_location import GUIDE
from app.models.models_view_model import ModelsViewModel
from engine import Command, Failed, LoadProgress, ModelReady, ModelUnloaded
from tests.app.models.test_models_view_model import load_id
from tests.fakes.scripted_engine import model_info


@pytest.fixture
def sent() -> list[Command]:
    return []


def loaded_then_asked_anew(sent: list[Command]) -> tuple[ModelsViewModel, str, str]:
    """A model that is set otherwise, and the ids of its loads before and behind that."""
    own = [ModelSettings()]
    models = ModelsViewModel(sent.append, GUIDE, lambda path, then: then(Own(own[-1])))
    models.open("/models/tiny")
    first = load_id(sent)
    models.handle(ModelReady(first, model_info("/models/tiny")))
    own.append(ModelSettings(context=512))
    assert models.take_own("/models/tiny", own[-1])
    models.open("/models/tiny")
    assert models.state.phase == "loading"
    return models, first, load_id(sent)


@pytest.mark.usefixtures("qtbot")
def test_a_model_that_cannot_be_loaded_anew_is_there_as_it_was(sent: list[Command]) -> None:
    models, first, anew = loaded_then_asked_anew(sent)
    models.handle(Failed(anew, "the context is too small", "EngineError"))
    assert (models.state.phase, models.state.info) == ("ready", model_info("/models/tiny"))
    assert models.state.error == "the context is too small"
    assert models.takes_requests
    models.handle(ModelUnloaded("/models/tiny", "idle"))
    models.handle(LoadProgress(first, 1, 4))
    assert (models.state.phase, models.state.error) == ("loading", "")
    models.handle(Failed(first, "the disk is gone", "ModelError"))
    assert (models.state.phase, models.state.error) == ("resting", "the disk is gone")
    models.open("/models/tiny")  # as it is set now
    assert load_id(sent) not in (first, anew)
    models.handle(ModelReady(load_id(sent), model_info("/models/tiny")))
    assert (models.state.phase, models.state.error) == ("ready", "")


@pytest.mark.usefixtures("qtbot")
@pytest.mark.parametrize(("reason", "phase"), [("asked", "failed"), ("room", "failed"), ("idle", "resting")])
def test_one_that_left_memory_before_its_load_broke_is_told_so(
    sent: list[Command], reason: Literal["asked", "room", "idle"], phase: str
) -> None:
    models, _, anew = loaded_then_asked_anew(sent)
    models.handle(ModelUnloaded("/models/tiny", reason))
    assert models.state.phase == "loading"
    models.handle(Failed(anew, "the file was cut", "ModelError"))
    assert (models.state.phase, models.state.error) == (phase, "the file was cut")


@pytest.mark.usefixtures("qtbot")
@pytest.mark.parametrize("first_breaks", [False, True])
def test_one_that_was_set_otherwise_while_it_loaded_is_there_as_the_engine_has_it(
    sent: list[Command], *, first_breaks: bool
) -> None:
    """Each change asks the engine to load it once more, behind what it was asked before."""
    own = [ModelSettings()]
    models, ids = ModelsViewModel(sent.append, GUIDE, lambda path, then: then(Own(own[-1]))), list[str]()
    opened = list[str]()
    models.opened.connect(opened.append)
    for context in (512, 256, 128):
        own.append(ModelSettings(context=context))
        models.open("/models/tiny")
        ids.append(load_id(sent))
    if first_breaks:
        models.handle(Failed(ids[0], "the disk was gone", "ModelError"))
    else:
        models.handle(ModelReady(ids[0], model_info("/models/tiny")))
        models.handle(ModelUnloaded("/models/tiny", "asked"))  # for the second
    assert models.state.phase == "loading"
    models.handle(ModelReady(ids[1], model_info("/models/tiny")))
    assert models.state.phase == "loading"
    assert not opened
    models.handle(Failed(ids[2], "the file is gone", "ModelError"))
    assert (models.state.phase, models.state.info) == ("ready", model_info("/models/tiny"))
    assert models.state.error == "the file is gone"
    models.handle(ModelUnloaded("/models/tiny", "asked"))
    assert models.state.phase == "none"


def opened_twice(sent: list[Command]) -> tuple[ModelsViewModel, list[str]]:
    """A model that was set otherwise and opened anew while it is loaded, and the ids of both loads."""
    own = [ModelSettings()]
    models, ids = ModelsViewModel(sent.append, GUIDE, lambda path, then: then(Own(own[-1]))), list[str]()
    for context in (512, 256):
        own.append(ModelSettings(context=context))
        models.open("/models/tiny")
        ids.append(load_id(sent))
    return models, ids


@pytest.mark.usefixtures("qtbot")
def test_one_whose_loads_were_all_refused_has_failed(sent: list[Command]) -> None:
    models, ids = opened_twice(sent)
    for number, load in enumerate(ids):
        models.handle(Failed(load, f"refused {number}", "ModelError"))
    assert (models.state.phase, models.state.error) == ("failed", "refused 1")


@pytest.mark.usefixtures("qtbot")
def test_while_a_load_goes_on_that_a_later_one_replaces_its_progress_is_on_show(sent: list[Command]) -> None:
    models, ids = opened_twice(sent)
    models.handle(LoadProgress(ids[0], 3, 4))
    assert (models.state.phase, models.state.progress) == ("loading", 0.75)
    models.handle(ModelReady(ids[0], model_info("/models/tiny")))
    models.handle(LoadProgress(ids[1], 1, 4))
    assert (models.state.phase, models.state.progress) == ("loading", 0.25)
    models.handle(Failed(ids[1], "the disk is gone", "ModelError"))
    assert (models.state.phase, models.state.error) == ("ready", "the disk is gone")
