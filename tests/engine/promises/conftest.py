"""Small models, each with an oracle, and an engine whose books are checked at each step."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.engine.oracle import Checked, checked_model
from tests.engine.promises.asked import Chat, settings
from tests.engine.watched import Watch, restore_always, watch_memory
from tests.fakes.listener import running_engine

MODELS = ("llama", "window", "mixed windows")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Checked]:
    root = tmp_path_factory.mktemp("models")
    return {kind: checked_model(root, kind) for kind in (*MODELS, "qwen3")}


@pytest.fixture(params=["llama", pytest.param("window", marks=pytest.mark.long), "mixed windows"])
def model(request: pytest.FixtureRequest, models: dict[str, Checked]) -> Checked:
    return models[request.param]


@pytest.fixture(autouse=True)
def watch(monkeypatch: pytest.MonkeyPatch) -> Iterator[Watch]:
    watch = watch_memory(monkeypatch)
    restore_always(monkeypatch)
    yield watch
    assert not watch.wrong


@pytest.fixture
def chat(model: Checked) -> Iterator[Chat]:
    with running_engine(settings()) as listener:
        listener.load(model.folder)
        yield Chat(listener, model)
