"""The largest safe context is what loading finds, no token more or less, and is set for the model."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app.bridge import FrameQueue
from app.dashboard.bench_context import BITS, safe_contexts
from app.dashboard.bench_context_panel import ContextPanel
from app.dashboard.bench_context_view_model import ContextViewModel
from app.errors import AppError
from app.library.library import open_library
from app.library.look import look
from app.library.lookup import own_at, settings_at
from app.library.records import ModelSettings
from app.measure.engine_client import EngineClient
from app.model_location import GUIDE
from app.models.background import Background
from app.models.models_view_model import ModelsViewModel
from app.paths import Paths
from engine import Command, EngineSettings, Generate, LoadModel, ModelReady
from tests.fakes.busy_thread import keep_busy
from tests.fakes.scripted_engine import model_info

SCARCE = EngineSettings(kv_bytes=3_000_000, speculation=False)
PATIENCE = 60_000


@pytest.mark.parametrize("draft", [None, GUIDE])
@pytest.mark.parametrize("place", [0, 1])
def test_it_is_the_context_that_loading_finds(place: int, draft: Path | None, tmp_path: Path) -> None:
    scarce = replace(SCARCE, speculation=draft is not None)
    choice = safe_contexts(GUIDE, scarce, draft=draft)[place]
    assert not choice.is_whole
    settings = replace(scarce, cache=tmp_path, kv_bits=BITS[choice.kv_cache])
    with EngineClient(settings) as client:
        assert client.load(GUIDE, draft).context_length == choice.tokens, "no more would fit"
    with EngineClient(replace(settings, context=choice.tokens)) as client:
        info = client.load(GUIDE, draft)
        assert info.context_length == choice.tokens
        assert info.total_pages * info.page_bytes <= choice.kv_budget == 3_000_000
        prompt = tuple(3 + place % 250 for place in range(choice.tokens - 2))
        done = client.run(Generate("", tokens=prompt, max_tokens=2, ignore_eos=True))
    assert len(done.end.tokens) == 2, "a chat of that length is not refused"


def test_a_draft_model_counts_where_anything_is_guessed() -> None:
    guessing = replace(SCARCE, speculation=True)
    alone, both = safe_contexts(GUIDE, guessing)[0], safe_contexts(GUIDE, guessing, draft=GUIDE)[0]
    assert abs(both.tokens - alone.tokens // 2) <= guessing.page_size
    assert both.words.endswith("that chats may take, with model guessing ahead")
    assert alone.words.endswith("that chats may take")
    assert safe_contexts(GUIDE, SCARCE, draft=GUIDE) == safe_contexts(GUIDE, SCARCE)
    with pytest.raises(AppError, match=r"draft model .* do not fit.*no draft model"):
        safe_contexts(GUIDE, guessing, memory=1_000_000, draft=GUIDE)
    with pytest.raises(AppError, match="its draft model"):
        safe_contexts(GUIDE, guessing, draft=Path("/nowhere"))


def test_more_fits_in_fewer_bits_and_never_more_than_the_model_allows() -> None:
    full, packed = safe_contexts(GUIDE, SCARCE)
    assert full.tokens < packed.tokens
    whole = safe_contexts(GUIDE, memory=64_000_000_000)
    assert [one.is_whole for one in whole] == [True, True]
    assert {one.tokens for one in whole} == {whole[0].tokens}
    assert "all that the model allows" in whole[0].words
    with pytest.raises(AppError, match="does not fit"):
        safe_contexts(GUIDE, memory=1_000_000)
    with pytest.raises(AppError):
        safe_contexts(Path("/nowhere"))


class Stage:
    """The panel on the guide in a data home of its own."""

    def __init__(self, qtbot: QtBot, home: Path) -> None:
        self.submitted: list[Command] = []
        self.problems: list[str] = []
        self.paths, self.queue = Paths(home), FrameQueue()
        self.models = ModelsViewModel(
            self.submitted.append, GUIDE, lambda path, then: then(own_at(Path(path), self.paths))
        )
        self.looking = Background("mlxr-test-context", self.queue.post)
        self.contexts = ContextViewModel(self.looking, self.models, self.paths)
        self.contexts.failed.connect(self.problems.append)
        self.panel = ContextPanel(self.contexts)
        self.qtbot = qtbot
        qtbot.addWidget(self.panel)

    def open(self, path: Path = GUIDE) -> None:
        """A model, the guide, is loaded and looked at."""
        self.models.open(str(path))
        self.models.handle(ModelReady(self.loads[-1].id, model_info(str(path))))
        self.contexts.look(True)
        self.qtbot.waitUntil(lambda: bool(self.contexts.choices), timeout=PATIENCE)

    @property
    def loads(self) -> list[LoadModel]:
        return [command for command in self.submitted if isinstance(command, LoadModel)]


@pytest.fixture
def stage(qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    monkeypatch.setenv("HOME", str(tmp_path / "somebody"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    stage = Stage(qtbot, tmp_path / "home")
    yield stage
    assert stage.contexts.close(PATIENCE / 1000)  # in C++ when Python ends, it aborts the process
    stage.queue.close()


def test_what_is_chosen_is_set_beside_what_was_and_loaded(stage: Stage) -> None:
    with open_library(stage.paths, must_save=True) as library:
        library.refresh(look, lambda done, total: None)
        model = library.model_at(GUIDE)
        assert model is not None
        library.save_settings(model, ModelSettings(system="Be brief.", kv_cache="4"))
    stage.open()
    packed = stage.contexts.choices[1]
    assert stage.panel.lines["8"].text() == packed.words
    stage.panel.buttons["8"].click()
    stage.qtbot.waitUntil(lambda: len(stage.loads) == 2, timeout=PATIENCE)
    assert (stage.loads[1].context, stage.loads[1].kv_bits) == (packed.tokens, 8)
    wanted = ModelSettings(system="Be brief.", context=packed.tokens, kv_cache="8")
    assert settings_at(GUIDE, stage.paths) == wanted
    used = stage.panel.buttons["8"]
    stage.qtbot.waitUntil(lambda: used.text() == "In use", timeout=PATIENCE)
    assert not used.isEnabled()
    assert stage.panel.buttons["full"].isEnabled()


def test_what_is_chosen_right_before_the_end_is_set(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.open()
    packed = stage.contexts.choices[1]
    keep_busy(stage.looking, monkeypatch)
    stage.panel.buttons["8"].click()
    assert stage.contexts.close(PATIENCE / 1000)
    assert settings_at(GUIDE, stage.paths) == ModelSettings(context=packed.tokens, kv_cache="8")


@pytest.mark.parametrize("is_own", [False, True])
def test_a_model_in_no_list_is_listed_with_what_is_chosen(stage: Stage, tmp_path: Path, is_own: bool) -> None:
    path = GUIDE
    if is_own:
        path = tmp_path / "somewhere" / "own"
        shutil.copytree(GUIDE, path)
    stage.open(path)
    full = stage.contexts.choices[0]
    stage.panel.buttons["full"].click()
    stage.qtbot.waitUntil(lambda: len(stage.loads) == 2, timeout=PATIENCE)
    assert (stage.problems, stage.loads[1].path) == ([], str(path))
    assert settings_at(path, stage.paths) == ModelSettings(context=full.tokens, kv_cache="full")
    with open_library(stage.paths) as library:
        assert library.places() == ([path] if is_own else [])


def test_a_model_that_has_gone_is_said(stage: Stage, tmp_path: Path) -> None:
    path = tmp_path / "own"
    shutil.copytree(GUIDE, path)
    stage.open(path)
    shutil.rmtree(path)
    stage.panel.buttons["full"].click()
    stage.qtbot.waitUntil(lambda: bool(stage.problems), timeout=PATIENCE)
    assert str(path) in stage.problems[0]
    assert len(stage.loads) == 1
